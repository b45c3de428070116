// Tests folders of quant_method fp8, as DeepSeek publishes them: a weight is its code times the scale of its block.
#include "formats/compressed/source.hpp"

#include "checkpoint/convert/open_source.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/source/source_reader.hpp"
#include "kernels/base/small_floats.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(fp8)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::tests;
using core::dtype;

namespace {

constexpr int64_t rows = 5, columns = 7;
const std::string module = "model.layers.0.mlp.up_proj";

uint8_t code_at(int64_t r, int64_t c) { return static_cast<uint8_t>(0x20 + 3 * r + 5 * c + (c % 2) * 0x80); }

std::vector<std::byte> bytes_of_floats(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// A folder with one fp8 weight and a norm.
struct fp8_folder {
  std::string blocks = "[2, 3]";
  std::string scale_name = ".weight_scale_inv";
  std::vector<int64_t> scale_shape{3, 3};
  std::vector<float> scales{0.5F, 1, 2, 4, 8, 16, 0.25F, 3, 0};
  std::string more{};  ///< further keys of quantization_config

  void write(const scratch_folder& at) const {
    std::vector<std::byte> codes;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) codes.push_back(std::byte{code_at(r, c)});
    const auto stored = bytes_of_floats(scales), norm = bytes_of_floats({1, 2}), range = bytes_of_floats({1});
    const std::vector<tensor_to_write> all{{module + ".weight", dtype::u8, {rows, columns}, codes, {}, true},
                                           {module + scale_name, dtype::f32, scale_shape, stored, {}},
                                           {module + ".input_scale", dtype::f32, {1}, range, {}},
                                           {"model.norm.weight", dtype::f32, {2}, norm, {}}};
    check_ok(write_weights_folder(at.path(), all));
    at.write("config.json", R"({"model_type": "llama", "quantization_config": {"quant_method": "fp8")" + more +
                                (blocks.empty() ? "" : R"(, "weight_block_size": )" + blocks) + "}}");
  }
};

std::vector<float> values_in(const tensor_source& s) {
  const auto* t = find_tensor(s, module + ".weight", tensor_kind::weight);
  BOOST_REQUIRE(t != nullptr);
  BOOST_TEST((t->type == dtype::f32 && t->shape == std::vector<int64_t>{rows, columns}));
  std::vector<float> out(static_cast<size_t>(rows * columns));
  source_reader reader(s);
  check_ok(reader.read(*t, 0, out.size(), std::as_writable_bytes(std::span(out))));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_are_codes_times_the_scale_of_their_block) {
  struct form {
    fp8_folder folder;
    int64_t block_rows, block_columns;
  };
  const std::vector<float> each_row{1, 2, 4, 8, 16};
  for (const auto& f : std::vector<form>{
           {{}, 2, 3},
           {{.blocks = "[128, 128]", .scale_shape = {1, 1}, .scales = {0.75F}}, 128, 128},
           {{.blocks = "null", .scale_shape = {1}, .scales = {3}}, rows, columns},
           {{.blocks = "", .scale_name = ".weight_scale", .scale_shape = {rows, 1}, .scales = each_row}, 1, columns}}) {
    const scratch_folder at;
    f.folder.write(at);
    const auto s = check_ok(open_source(at.path()));
    BOOST_TEST(s->format == "Hugging Face, fp8");
    BOOST_TEST(s->tensors.size() == 2U);
    BOOST_TEST(s->run.model.find("quantization_config") == std::string::npos);
    const auto got = values_in(*s);
    const int64_t across = (columns + f.block_columns - 1) / f.block_columns;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        BOOST_TEST(got[static_cast<size_t>(r * columns + c)] ==
                   kernels::float_from_e4m3(code_at(r, c)) *
                       f.folder.scales[static_cast<size_t>(r / f.block_rows * across + c / f.block_columns)]);
    // Reads a range from the middle of the tensor.
    const auto* t = find_tensor(*s, module + ".weight", tensor_kind::weight);
    std::vector<float> part(9);
    source_reader reader(*s);
    check_ok(reader.read(*t, 11, part.size(), std::as_writable_bytes(std::span(part))));
    BOOST_TEST(part == std::vector<float>(got.begin() + 11, got.begin() + 20), boost::test_tools::per_element());
    BOOST_TEST(
        compression_of(at.path()).value().has_codes());  // training from a compressed folder requires --dequantise
  }
}

BOOST_AUTO_TEST_CASE(scales_that_do_not_fit_are_refused_by_name) {
  const auto refused = [](const fp8_folder& folder, const std::string& words) {
    const scratch_folder at;
    folder.write(at);
    const auto s = open_source(at.path());
    check_failed(s, error_kind::bad_input, words);
  };
  refused({.scale_shape = {3, 2}, .scales = std::vector<float>(6)},
          "tensor 'model.layers.0.mlp.up_proj.weight_scale_inv': its shape [3, 2] does not fit 5 x 7 codes in blocks "
          "of 2 x 3");
  refused({.scale_name = ".weight_factor"}, "its scales, 'model.layers.0.mlp.up_proj.weight_scale_inv', are missing");
  refused({.blocks = "[2]"}, "quantization_config.weight_block_size: two whole numbers above 0 were wanted");
  refused({.blocks = "[0, 3]"}, "quantization_config.weight_block_size: two whole numbers above 0 were wanted");
  refused({.more = R"(, "fmt": "e5m2")"}, "quantization_config.fmt: wanted e4m3, got 'e5m2'");
  const scratch_folder at;
  fp8_folder{.scales = {1, 1, 1, 1, -1, 1, 1, 1, 1}}.write(at);
  const auto s = check_ok(open_source(at.path()));
  std::vector<float> values(static_cast<size_t>(rows * columns));
  source_reader reader(*s);
  const auto* t = find_tensor(*s, module + ".weight", tensor_kind::weight);
  check_failed(reader.read(*t, 0, values.size(), std::as_writable_bytes(std::span(values))), error_kind::bad_input,
               "block row 1, block 1: a scale from 0 on was wanted, got -1");
}

BOOST_AUTO_TEST_SUITE_END()
