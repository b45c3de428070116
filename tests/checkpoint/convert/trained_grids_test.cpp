// Tests weights that are multiples of powers of two, which every format's scales represent exactly: they must be read
// back bit for bit.
#include "checkpoint/convert/trained_grid.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <span>

#include "checkpoint/convert/open_source.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "kernels/compress/block_formats.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(trained_grids)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::tests;

namespace {

constexpr uint64_t rows = 6, columns = 64, runs = rows * 2;

/// Weights of 4 bits: matrices stored as (out, in) and, transposed, as (in, out).
struct trained {
  scratch_folder folder;
  std::vector<float> weight = std::vector<float>(rows * columns), across = weight;
  checkpoint::trained_grid grid{columns / 2, {}};
  tensor_source source;

  trained() {
    for (uint64_t run = 0; run < runs; ++run) grid.scales.push_back(std::ldexp(1.0F, -static_cast<int>(run % 5)));
    for (uint64_t i = 0; i < weight.size(); ++i) {
      weight[i] = grid.scales[i / grid.group_size] * static_cast<float>(static_cast<int>(i * 7 % 16) - 8);
      across[i % columns * rows + i / columns] = weight[i];
    }
    const auto bytes = [](const std::vector<float>& x) { return std::as_bytes(std::span(x)); };
    check_ok(write_weights_folder(
        folder / "model", std::vector<tensor_to_write>{{"weight", core::dtype::f32, {rows, columns}, bytes(weight)},
                                                       {"across", core::dtype::f32, {columns, rows}, bytes(across)}}));
    auto opened = check_ok(open_source(folder / "model"));
    source = std::move(*opened);
  }
};

std::vector<float> blocks_back(const prepared_weights& made, const std::string& tensor, kernels::block_format format) {
  const uint64_t blocks = rows * columns / kernels::elements_of(format);
  std::vector<std::byte> bytes(blocks * kernels::bytes_of(format));
  check_ok(made.read(*made.find(tensor), weight_part::codes, 0, bytes));
  std::vector<float> out(rows * columns);
  kernels::dequantise_blocks(format, bytes.data(), blocks, out.data());
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_of_all_types_hold_the_trained_values_bit_for_bit) {
  const trained t;
  for (const auto& [type, format] : {std::pair{gguf_type::q4_0, kernels::block_format::q4_0},
                                     {gguf_type::q4_1, kernels::block_format::q4_1},
                                     {gguf_type::q5_0, kernels::block_format::q5_0},
                                     {gguf_type::q8_0, kernels::block_format::q8_0}})
    for (const bool transposed : {false, true}) {
      BOOST_TEST_INFO_SCOPE("transposed " << transposed);
      auto store =
          check_ok(weight_store::open(t.folder / "work", std::string(name_of(type)) + (transposed ? "t" : "")));
      auto grid = t.grid;
      grid.transposed = transposed;
      const std::string tensor = transposed ? "across" : "weight";
      const auto put = check_ok(put_trained(*store, t.source, tensor, grid, *form_of(type, rows, columns)));
      BOOST_TEST(*put);
      check_ok(store->commit(1));
      const auto made = check_ok(store->prepared());
      BOOST_TEST(blocks_back(*made, tensor, format) == t.weight, boost::test_tools::per_element());
      BOOST_TEST(made->find(tensor)->lost.largest == 0);
    }
}

BOOST_AUTO_TEST_CASE(a_scale_that_the_format_rounds_is_told_by_the_largest_difference) {
  trained t;
  for (float& s : t.grid.scales) s = 0.1F;  // fp16 cannot represent 0.1 exactly
  const auto tensors = std::vector<float>(rows * columns, 0.3F);
  check_ok(write_weights_folder(
      t.folder / "other",
      std::vector<tensor_to_write>{{"weight", core::dtype::f32, {rows, columns}, std::as_bytes(std::span(tensors))}}));
  const auto source = check_ok(open_source(t.folder / "other"));
  auto store = check_ok(weight_store::open(t.folder / "work", "rounded"));
  const auto put = check_ok(put_trained(*store, *source, "weight", t.grid, *form_of(gguf_type::q4_0, rows, columns)));
  BOOST_TEST(*put);
  check_ok(store->commit(1));
  const double largest = store->prepared()->find("weight")->lost.largest;
  BOOST_TEST(largest > 0);
  BOOST_TEST(largest < 3 * 0.1 / 1024);
}

BOOST_AUTO_TEST_CASE(nothing_is_put_where_codes_or_runs_do_not_fit) {
  const trained t;
  auto store = check_ok(weight_store::open(t.folder / "work", "refused"));
  const auto put = [&](const checkpoint::trained_grid& grid, gguf_type type) {
    const auto done = check_ok(put_trained(*store, t.source, "weight", grid, *form_of(type, rows, columns)));
    return *done;
  };
  auto halves = t.grid;  // doubles the codes and halves the scales, which results in equal weights
  for (float& s : halves.scales) s /= 2;
  BOOST_TEST(!put(halves, gguf_type::q4_0));
  BOOST_TEST(put(halves, gguf_type::q8_0));
  auto narrow = t.grid;
  narrow.group_size = 16;  // two of these groups are in one block of the format
  narrow.scales.resize(rows * columns / 16, 1);
  BOOST_TEST(!put(narrow, gguf_type::q8_0));
  BOOST_TEST(!put({32, {}}, gguf_type::q8_0));
  BOOST_TEST(!put(t.grid, gguf_type::q4_k));
}

BOOST_AUTO_TEST_SUITE_END()
