// Tests weights that are compressed and read back, in every format.
#include "checkpoint/convert/compress.hpp"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/convert/open_source.hpp"
#include "formats/weights/hugging_face.hpp"
#include "tests/formats/random_source.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(compress)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

constexpr const char* config = R"({"model_type": "llama", "dtype": "float32"})";

/// A folder with a model of Llama's form, whose weights look random.
class plain_model {
 public:
  explicit plain_model(int64_t inner = 96) {
    for (const char* layer : {"0", "1"}) {
      const std::string at = std::string("model.layers.") + layer;
      add(at + ".self_attn.q_proj.weight", {64, 64});
      // Makes a tensor whose zero points do not fill a whole number of words.
      add(at + ".self_attn.k_proj.weight", {33, 64});
      add(at + ".self_attn.v_proj.weight", {32, 64});
      add(at + ".self_attn.q_proj.bias", {64});
      add(at + ".mlp.gate_proj.weight", {inner, 64});
      add(at + ".mlp.up_proj.weight", {inner, 64});
      add(at + ".mlp.down_proj.weight", {64, inner});
      add(at + ".input_layernorm.weight", {64});
    }
    add("model.embed_tokens.weight", {100, 64});
    add("lm_head.weight", {100, 64});
  }

  std::vector<float>& operator[](const std::string& name) { return values_[name]; }

  tensor_source open() {
    std::vector<tensor_to_write> tensors;
    for (const auto& [name, values] : values_)
      tensors.push_back({name, core::dtype::f32, shapes_[name], std::as_bytes(std::span(values))});
    check_ok(write_weights_folder(at_.path(), tensors));
    std::ofstream(at_ / "config.json") << config;
    return open_source(at_.path()).value();
  }

 private:
  void add(const std::string& name, std::vector<int64_t> shape) {
    auto& values = values_[name];
    values.resize(core::numel_of(shape));
    const auto seed = std::hash<std::string>()(name);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = (static_cast<float>(core::mix64(seed + i) >> 40) * 0x1p-24F - 0.45F) * 0.2F;
    shapes_[name] = std::move(shape);
  }

  scratch_folder at_;
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, std::vector<int64_t>> shapes_;
};

const std::vector<scheme_wish>& wishes() {
  static const std::vector<scheme_wish> all{
      {"int4", 32, false, core::dtype::f32},   {"int4", 16, true, core::dtype::bf16},
      {"int4", 0, false, core::dtype::f16},    {"int3", 32, true, core::dtype::f32},
      {"int2", 16, true, core::dtype::bf16},   {"int5", 8, true, core::dtype::f16},
      {"int8", {}, false, core::dtype::bf16},  {"int8", {}, true, core::dtype::f32},
      {"w8a8", {}, false, core::dtype::bf16},  {"fp8", {}, false, core::dtype::bf16},
      {"mxfp4", {}, false, core::dtype::bf16}, {"nvfp4", {}, false, core::dtype::bf16}};
  return all;
}

compress_options options_for(const fs::path& out, const scheme_wish& wish) {
  compress_options o;
  o.out = out;
  o.scheme = scheme_of(wish).value();
  o.type = wish.type;
  return o;
}

/// Compresses the weights into a folder and opens that folder; `told` receives the report.
tensor_source compressed(const tensor_source& from, const fs::path& out, const scheme_wish& wish,
                         compression_report* told = nullptr) {
  const auto options = options_for(out, wish);
  const auto report = check_ok(compress_weights(from, options));
  if (told != nullptr) *told = *report;
  std::ofstream(out / "config.json") << with_quantization_config(config, options.scheme, {"lm_head"}).value();
  auto s = check_ok(open_source(out));
  return std::move(*s);
}

std::vector<float> floats_in(const tensor_source& s, const std::string& name) {
  const auto* t = find_tensor(s, name, tensor_kind::weight);
  BOOST_REQUIRE_MESSAGE(t != nullptr, name);
  std::vector<float> out(core::numel_of(t->shape));
  source_reader reader(s);
  check_ok(reader.read_as(core::dtype::f32, *t, 0, out.size(), std::as_writable_bytes(std::span(out))));
  return out;
}

/// Returns the largest relative error of values that are evenly distributed: the distance between two codes is 2^(1-b)
/// of the range, and an error is at most half of it.
double most_error(const weight_scheme& s) {
  switch (s.codes().kind) {
    case kernels::code_kind::e4m3:
      return 0.03;
    case kernels::code_kind::e2m1:
      return 0.15;
    default:
      return 1.3 / (1U << s.bits);
  }
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, whole = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    whole += static_cast<double>(a[i]) * a[i];
  }
  return std::sqrt(difference / whole);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_read_back_is_as_near_as_the_report_says_and_the_rest_is_as_it_was) {
  plain_model model;
  const auto from = model.open();
  for (const auto& wish : wishes()) {
    BOOST_TEST_CONTEXT(wish.format << (wish.asymmetric ? " asymmetric" : "")) {
      const scratch_folder at;
      compression_report report;
      const auto back = compressed(from, at / "out", wish, &report);
      BOOST_TEST(report.layers.size() == 12U);
      BOOST_REQUIRE_EQUAL(back.tensors.size(), from.tensors.size());
      uint64_t bytes = 0;
      const auto written = weights_folder::open(at / "out");
      for (const auto& e : written->tensors()) bytes += e.entry->end - e.entry->begin;
      BOOST_TEST(bytes == report.tensor_bytes);
      for (const auto& l : report.layers) {
        const auto wanted = model[l.name + ".weight"], got = floats_in(back, l.name + ".weight");
        BOOST_TEST(std::fabs(distance(wanted, got) - l.error) < 1e-9);
        const auto bits = scheme_of(wish)->bits;
        BOOST_TEST(l.error < most_error(*scheme_of(wish)));
        BOOST_TEST(l.error > 0);
        BOOST_TEST(l.bits >= bits);
        BOOST_TEST(l.bits < bits + 5);
      }
      for (const char* name : {"model.embed_tokens.weight", "lm_head.weight", "model.layers.0.self_attn.q_proj.bias"}) {
        std::vector<float> wanted = model[name];
        std::vector<std::byte> rounded(wanted.size() * core::size_of(wish.type));
        auto* const floats = reinterpret_cast<std::byte*>(wanted.data());
        cast_elements(core::dtype::f32, floats, wish.type, rounded.data(), wanted.size());
        cast_elements(wish.type, rounded.data(), core::dtype::f32, floats, wanted.size());
        BOOST_TEST((floats_in(back, name) == wanted));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_folder_is_bits_and_scales_of_its_layers_and_the_rest_within_2_percent) {
  plain_model model(2048);
  const auto from = model.open();
  // Returns three numbers: the bits of a weight, the bits of a group's scale and zero point, and the number of weights
  // in a group (0: a whole row).
  const auto sizes_of = [](const scheme_wish& w) -> std::array<double, 3> {
    const double scale = w.type == core::dtype::f32 ? 32 : 16;
    if (w.format == "mxfp4") return {4, 8, 32};
    if (w.format == "nvfp4") return {4, 8, 16};
    if (w.format == "w8a8" || w.format == "fp8") return {8, scale, 0};
    const double bits = w.format.back() - '0';
    return {bits, scale + (w.asymmetric ? bits : 0), static_cast<double>(w.group_size.value_or(bits == 8 ? 0 : 128))};
  };
  for (const auto& wish : wishes()) BOOST_TEST_CONTEXT(wish.format << (wish.asymmetric ? " asymmetric" : "")) {
      const scratch_folder at;
      compression_report report;
      compressed(from, at / "out", wish, &report);
      const auto [bits, of_group, group] = sizes_of(wish);
      double wanted = 0;
      uint64_t quantised = 0;
      for (const auto& l : report.layers) {
        const auto count = static_cast<double>(l.rows * l.columns);
        quantised += l.rows * l.columns;
        wanted += (count * bits + count / (group > 0 ? group : static_cast<double>(l.columns)) * of_group) / 8;
      }
      wanted += static_cast<double>((report.weights - quantised) * core::size_of(wish.type));
      uint64_t bytes = 0;
      for (const auto& file : fs::directory_iterator(at / "out")) bytes += fs::file_size(file);
      BOOST_TEST(static_cast<double>(bytes) <= 1.02 * wanted, bytes << " bytes for " << wanted);
      BOOST_TEST(*compressed_bytes(from, options_for(at / "out", wish)) == report.tensor_bytes);
    }
}

BOOST_AUTO_TEST_CASE(what_was_compressed_once_stays_as_it_is_in_the_same_format) {
  plain_model model;
  const auto from = model.open();
  for (const auto& wish :
       {scheme_wish{"fp8", {}, false, core::dtype::f32}, scheme_wish{"mxfp4", {}, false, core::dtype::bf16}}) {
    const scratch_folder at;
    const auto once = compressed(from, at / "once", wish);
    const auto twice = compressed(once, at / "twice", wish);
    for (const auto& t : once.tensors)
      BOOST_TEST(distance(floats_in(once, t.name), floats_in(twice, t.name)) < 1e-6, t.name);
  }
}

BOOST_AUTO_TEST_CASE(several_files_and_one_hold_the_same_and_blocks_of_any_size_do_not_show) {
  plain_model model(32 * 300);  // a row then has more elements than a block processes
  const auto from = model.open();
  const scratch_folder at;
  const scheme_wish wish{"int3", 32, true, core::dtype::bf16};
  const auto one = compressed(from, at / "one", wish);
  auto options = options_for(at / "many", wish);
  options.max_shard_bytes = 300'000;
  check_ok(compress_weights(from, options));
  fs::copy(at / "one" / "config.json", at / "many" / "config.json");
  const auto many = check_ok(open_source(at / "many"));
  BOOST_TEST(many->files.size() > 3U);
  for (const auto& t : one.tensors) BOOST_TEST((floats_in(one, t.name) == floats_in(*many, t.name)), t.name);
}

BOOST_AUTO_TEST_CASE(layers_that_runtimes_join_share_the_one_scale_of_nvfp4) {
  plain_model model;
  model["model.layers.0.self_attn.k_proj.weight"][7] = 3.0F;
  const scratch_folder at;
  compressed(model.open(), at / "out", {"nvfp4", {}, false, core::dtype::bf16});
  const auto files = weights_folder::open(at / "out");
  const auto scale = [&](const std::string& module) {
    return files->find("model.layers.0." + module + ".weight_global_scale")->bytes().value();
  };
  BOOST_TEST(same_bytes(scale("self_attn.q_proj"), scale("self_attn.k_proj")));
  BOOST_TEST(same_bytes(scale("self_attn.q_proj"), scale("self_attn.v_proj")));
  BOOST_TEST(same_bytes(scale("mlp.gate_proj"), scale("mlp.up_proj")));
  BOOST_TEST(!same_bytes(scale("self_attn.q_proj"), scale("mlp.up_proj")));
  const float wanted = 448.0F * 6.0F / 3.0F;
  BOOST_TEST(same_bytes(scale("self_attn.q_proj"), std::as_bytes(std::span(&wanted, 1))));
}

BOOST_AUTO_TEST_CASE(rows_of_zeros_are_zeros_again) {
  plain_model model;
  auto& weight = model["model.layers.0.mlp.up_proj.weight"];
  std::fill(weight.begin(), weight.begin() + 128, 0.0F);
  const auto from = model.open();
  for (const auto& wish : wishes()) {
    const scratch_folder at;
    const auto got = floats_in(compressed(from, at / "out", wish), "model.layers.0.mlp.up_proj.weight");
    BOOST_TEST(std::all_of(got.begin(), got.begin() + 128, [](float x) { return x == 0; }), wish.format);
  }
}

BOOST_AUTO_TEST_CASE(values_that_are_not_finite_and_groups_that_do_not_divide_are_refused_and_nothing_is_left) {
  const scratch_folder at;
  plain_model model;
  model["model.layers.1.mlp.up_proj.weight"][65] = std::numeric_limits<float>::infinity();
  const auto spoiled = model.open();
  check_failed(compress_weights(spoiled, options_for(at / "out", {"int4", 32})), error_kind::numeric,
               "row 1, columns 0 to 31: a value is not a finite number");
  BOOST_TEST(!fs::exists(at / "out"));
  plain_model other;
  const auto from = other.open();
  check_failed(compress_weights(from, options_for(at / "out", {"int4", 64})), error_kind::bad_input,
               "layer 'model.layers.0.mlp.down_proj': groups of 64 do not divide rows of 96; 32, 16, 8 would");
  BOOST_TEST(!fs::exists(at / "out"));
  auto stopped = options_for(at / "out", {"int4", 32});
  stopped.progress = [](uint64_t done, uint64_t) { return done < 20'000; };
  check_failed(compress_weights(from, stopped), error_kind::stopped, "compressing was stopped");
  BOOST_TEST(!fs::exists(at / "out"));
}

BOOST_AUTO_TEST_CASE(a_source_without_linear_layers_is_refused) {
  const scratch_folder at;
  const std::vector<owned_tensor> tensors{{"wte.weight", core::dtype::f32, {4, 4}}};
  check_ok(write_weights_folder(at / "in", all_to_write(tensors)));
  check_failed(compress_weights(open_source(at / "in").value(), options_for(at / "out", {"int4", 32})),
               error_kind::bad_input, "has no linear layer to compress");
}

BOOST_AUTO_TEST_CASE(formats_that_nobody_writes_are_refused_with_what_was_wanted) {
  check_failed(scheme_of({"int9"}), error_kind::bad_input,
               "wanted int4, int8 (or int2 to int7), w8a8, fp8, mxfp4 or nvfp4, got 'int9'");
  check_failed(scheme_of({"int1"}), error_kind::bad_input, "got 'int1'");
  check_failed(scheme_of({"mxfp4", 16}), error_kind::bad_input, "mxfp4 requires groups of 32 columns, got 16");
  check_failed(scheme_of({"w8a8", 64}), error_kind::bad_input,
               "w8a8 has one scale per row and no groups, got groups of 64");
  check_failed(scheme_of({"fp8", {}, true}), error_kind::bad_input, "fp8 has no zero points: it is symmetric");
}

BOOST_AUTO_TEST_SUITE_END()
