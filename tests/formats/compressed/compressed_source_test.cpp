// Tests folders of compressed-tensors with fixtures that the package itself wrote
// (tests/peer/make_compressed_fixtures.py).
#include "formats/compressed/source.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/convert/open_source.hpp"
#include "formats/report/inspect.hpp"
#include "formats/report/verify.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/source/scatter_read.hpp"
#include "formats/weights/hugging_face.hpp"
#include "tests/counted_memory.hpp"
#include "tests/formats/mutations.hpp"
#include "tests/formats/random_source.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(compressed_source)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
using json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/compressed";
constexpr const char* module = "model.layers.0.mlp.up_proj";

std::vector<std::string> cases() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(fixtures)) out.push_back(entry.path().filename().string());
  std::ranges::sort(out);
  return out;
}

/// A copy of a fixture in a folder of its own, for tests that damage it.
class spoiled_folder {
 public:
  explicit spoiled_folder(const std::string& name) {
    fs::copy(fixtures / name, at_.path(), fs::copy_options::recursive);
    fs::remove(at_ / "expected.safetensors");
    const auto file = check_ok(safetensors_file::open(at_ / "model.safetensors"));
    for (const auto& e : file->entries()) {
      bytes.push_back(file->bytes(e).value());
      tensors.push_back({e.name, e.type, e.shape, {}, {}, e.is_e4m3});
    }
  }

  tensor_to_write& operator[](const std::string& suffix) { return tensors[place_of(suffix)]; }
  std::vector<std::byte>& bytes_of(const std::string& suffix) { return bytes[place_of(suffix)]; }
  void drop(const std::string& suffix) {
    const auto i = static_cast<std::ptrdiff_t>(place_of(suffix));
    tensors.erase(tensors.begin() + i);
    bytes.erase(bytes.begin() + i);
  }
  void set_config(const std::function<void(json&)>& change) {
    std::ifstream in(at_ / "config.json");
    auto keys = json::parse(in);
    change(keys["quantization_config"]);
    std::ofstream(at_ / "config.json") << keys;
  }
  core::result<tensor_source> open() {
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].bytes = bytes[i];
    check_ok(write_safetensors(at_ / "model.safetensors", tensors));
    return open_source(at_.path());
  }

  std::vector<tensor_to_write> tensors;
  std::vector<std::vector<std::byte>> bytes;

 private:
  size_t place_of(const std::string& suffix) const {
    const auto name = std::string(module) + "." + suffix;
    const auto at = std::ranges::find(tensors, name, &tensor_to_write::name);
    BOOST_REQUIRE_MESSAGE(at != tensors.end(), name);
    return static_cast<size_t>(at - tensors.begin());
  }
  scratch_folder at_;
};

const tensor_entry& weight_in(const tensor_source& s) {
  const auto* t = find_tensor(s, std::string(module) + ".weight", tensor_kind::weight);
  BOOST_REQUIRE(t != nullptr);
  return *t;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_folder_of_every_format_has_the_values_that_the_package_gives_bit_for_bit) {
  BOOST_TEST(cases().size() == 10U);
  for (const auto& name : cases()) {
    BOOST_TEST_CONTEXT(name) {
      const auto got = check_ok(open_source(fixtures / name));
      const auto expected = fixtures / name / "expected.safetensors";
      auto stored = check_ok(read_stored_tensors(expected, ""));
      const auto wanted = check_ok(plain_source(std::move(*stored), expected, false));
      BOOST_REQUIRE_EQUAL(got->tensors.size(), wanted->tensors.size());
      for (size_t i = 0; i < got->tensors.size(); ++i) {
        BOOST_TEST_INFO_SCOPE("i " << i);
        BOOST_TEST(got->tensors[i].name == wanted->tensors[i].name);
        BOOST_TEST((got->tensors[i].type == wanted->tensors[i].type));
        BOOST_TEST((got->tensors[i].shape == wanted->tensors[i].shape));
        BOOST_TEST(same_bytes(bytes_in(*got, got->tensors[i]), bytes_in(*wanted, wanted->tensors[i])));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(any_elements_may_be_read_and_loads_of_many_threads_have_the_same) {
  for (const auto& name : cases()) {
    const auto s = open_source(fixtures / name).value();
    const auto& t = weight_in(s);
    const auto all = bytes_in(s, t);
    const size_t width = core::size_of(t.type), elements = all.size() / width;
    source_reader reader(s);
    for (const auto& [first, count] :
         {std::pair<size_t, size_t>{0, 1}, {1, 62}, {63, 2}, {64, 64}, {100, 500}, {elements - 1, 1}}) {
      BOOST_TEST_INFO_SCOPE("first " << first << ", count " << count);
      std::vector<std::byte> part(count * width);
      check_ok(reader.read(t, first, count, part));
      BOOST_TEST(same_bytes(part, std::span(all).subspan(first * width, count * width)));
    }
    std::vector<float> floats(elements), scattered(elements);
    check_ok(reader.read_as(core::dtype::f32, t, 0, elements, std::as_writable_bytes(std::span(floats))));
    const std::vector<scattered_tensor> wanted{
        {&t, {{.first = 0, .count = elements, .to = std::as_writable_bytes(std::span(scattered)).data()}}}};
    check_ok(read_scattered(real_files(), s, wanted, {}));
    BOOST_TEST((scattered == floats));
  }
}

BOOST_AUTO_TEST_CASE(verify_reads_values_and_inspect_names_the_format) {
  for (const auto& name : cases()) {
    const auto s = open_source(fixtures / name).value();
    const auto verified = check_ok(verify_source(real_files(), s));
    BOOST_TEST(verified->damages == 0U);
    const auto text = inspect_text(s);
    BOOST_TEST(text.find("quantized") != std::string::npos, text);
    BOOST_TEST(text.find("weight_scale") == std::string::npos, text);
    BOOST_TEST(s.run.model.find("quantization_config") == std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(scales_of_0_and_those_that_are_no_numbers_are_found_when_they_are_read) {
  const struct {
    const char* folder;
    std::vector<uint8_t> bytes;
    const char* shown;
  } bad[] = {{"int4_group", {0, 0}, "0"},
             {"int4_group", {0x80, 0x7F}, "inf"},
             {"int4_group", {0xC0, 0x7F}, "nan"},
             {"int4_group", {0x80, 0xBF}, "-1"},
             {"w8a8", {0, 0}, "0"},
             {"mxfp4", {255}, "nan"},
             {"nvfp4", {0}, "0"},
             {"nvfp4", {0x7F}, "nan"},
             {"fp8", {0x80, 0x7F}, "inf"}};
  for (const auto& b : bad) {
    spoiled_folder at(b.folder);
    auto& scales = at.bytes_of("weight_scale");
    for (size_t i = 0; i < b.bytes.size(); ++i)
      scales[scales.size() - b.bytes.size() + i] = static_cast<std::byte>(b.bytes[i]);
    const auto s = check_ok(at.open());
    std::vector<std::byte> row(64 * core::size_of(weight_in(*s).type));
    source_reader reader(*s);
    check_ok(reader.read(weight_in(*s), 0, 64, row));
    check_failed(reader.read(weight_in(*s), 11 * 64, 64, row), error_kind::bad_input,
                 std::string("tensor 'model.layers.0.mlp.up_proj.weight': row 11, group "));
    check_failed(reader.read(weight_in(*s), 11 * 64, 64, row), error_kind::bad_input,
                 std::string("a scale above 0 was wanted, got ") + b.shown);
    const auto verified = check_ok(verify_source(real_files(), *s));
    BOOST_TEST(verified->damages == 1U);
  }
}

BOOST_AUTO_TEST_CASE(a_global_scale_that_is_none_is_refused) {
  for (const float bad :
       {0.0F, -1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    spoiled_folder at("nvfp4");
    std::memcpy(at.bytes_of("weight_global_scale").data(), &bad, sizeof bad);
    check_failed(at.open(), error_kind::bad_input,
                 "tensor 'model.layers.0.mlp.up_proj.weight_global_scale': a scale above 0 was wanted, got ");
  }
}

BOOST_AUTO_TEST_CASE(parts_that_are_missing_or_of_another_form_are_refused_by_name) {
  const auto refused = [](const char* folder, const std::function<void(spoiled_folder&)>& spoil, const char* words) {
    spoiled_folder at(folder);
    spoil(at);
    check_failed(at.open(), error_kind::bad_input, words);
  };
  refused(
      "int4_group", [](auto& at) { at.drop("weight_shape"); },
      "tensor 'model.layers.0.mlp.up_proj.weight_shape': two whole numbers were wanted");
  refused(
      "int4_group", [](auto& at) { at.drop("weight_packed"); },
      "tensor 'model.layers.0.mlp.up_proj.weight_packed': a matrix of codes was wanted");
  refused(
      "int4_asymmetric", [](auto& at) { at.drop("weight_zero_point"); },
      "tensor 'model.layers.0.mlp.up_proj.weight_zero_point' is missing");
  refused(
      "fp8", [](auto& at) { at.drop("weight_scale"); }, "tensor 'model.layers.0.mlp.up_proj.weight_scale' is missing");
  refused(
      "fp8", [](auto& at) { at["weight"].is_e4m3 = false; },
      "tensor 'model.layers.0.mlp.up_proj.weight': wanted F8_E4M3 [12, 64], got uint8 [12, 64]");
  refused(
      "int4_group",
      [](auto& at) {
        at["weight_scale"].shape = {4, 12};
      },
      "tensor 'model.layers.0.mlp.up_proj.weight_scale': wanted bf16 [12, 4], got bf16 [4, 12]");
  refused(
      "int4_group", [](auto& at) { at["weight_scale"].type = core::dtype::i16; },
      "scales of fp32, bf16 or fp16 were wanted, got int16");
  refused(
      "int4_group", [](auto& at) { at.bytes_of("weight_shape")[8] = std::byte{100}; },
      "tensor 'model.layers.0.mlp.up_proj.weight_shape' is 12 x 100, but the codes have 12 rows of 8 words");
  refused(
      "int4_group", [](auto& at) { at.bytes_of("weight_shape")[15] = std::byte{0x80}; },
      "tensor 'model.layers.0.mlp.up_proj.weight_shape' is 12 x -");
  refused(
      "int4_group",
      [](auto& at) {
        at.tensors.push_back({std::string(module) + ".weight_g_idx", core::dtype::i32, {0}, {}, {}});
        at.bytes.emplace_back();
      },
      "tensor 'model.layers.0.mlp.up_proj.weight_g_idx': reordered columns are not supported");
}

BOOST_AUTO_TEST_CASE(configurations_that_mean_nothing_here_are_refused_with_their_key) {
  const auto refused = [](const std::function<void(json&)>& change, const char* words) {
    spoiled_folder at("int4_group");
    at.set_config(change);
    check_failed(at.open(), error_kind::bad_input, words);
  };
  const auto weights = [](json& q) -> json& { return q["config_groups"]["group_0"]["weights"]; };
  refused([&](json& q) { weights(q)["group_size"] = 24; },
          "groups of 24 do not divide rows of 64; 64, 32, 16, 8 would");
  refused([&](json& q) { weights(q)["num_bits"] = 9; }, "weights.num_bits: pack-quantized requires 2 to 8 bits, got 9");
  refused([&](json& q) { weights(q)["num_bits"] = "4"; }, "weights.num_bits: a whole number was wanted, got \"4\"");
  refused([&](json& q) { weights(q)["type"] = "float"; }, "pack-quantized requires codes of type int, got 'float'");
  refused([&](json& q) { weights(q)["strategy"] = "block"; },
          "wanted tensor, channel, group or tensor_group, got 'block'");
  refused([&](json& q) { weights(q)["group_size"] = nullptr; },
          "weights.group_size: 0 does not fit the strategy 'group'");
  refused([&](json& q) { q["format"] = "marlin-24"; }, "got 'marlin-24'");
  refused([&](json& q) { q["config_groups"]["group_0"]["targets"] = json::array(); },
          "targets: wanted at least one name of a module");
  refused([&](json& q) { q["config_groups"]["group_0"]["targets"] = {"re:.*down_proj"}; },
          "quantization_config has no group for the module 'model.layers.0.mlp.up_proj'");
  refused([&](json& q) { q["transform_config"]["config_groups"]["R1"] = json::object(); },
          "quantization_config.transform_config: transformed weights are not supported");
  refused([&](json& q) { q["config_groups"] = json::object(); }, "config_groups: wanted at least one group of modules");
}

BOOST_AUTO_TEST_CASE(a_group_that_names_a_module_counts_before_one_that_names_its_class) {
  spoiled_folder at("int4_group");
  at.set_config([](json& q) {
    auto other = q["config_groups"]["group_0"];
    other["weights"]["num_bits"] = 8;
    q["config_groups"]["a"] = other;  // the group precedes group_0 and matches all linear layers
    q["config_groups"]["group_0"]["targets"] = {"re:.*up_proj"};
  });
  check_ok(at.open());
}

BOOST_AUTO_TEST_CASE(parts_of_a_configuration_that_leave_weights_as_they_lie_are_no_refusal) {
  using change = std::function<void(json&)>;
  for (const change& c : std::vector<change>{
           [](json& q) {
             q["sparsity_config"] = {{"format", "dense"}, {"global_sparsity", 0.1}, {"targets", json::array()}};
           },
           [](json& q) { q["sparsity_config"] = json::object(); },
           [](json& q) {
             q["transform_config"] = {{"config_groups", json::object()}};
           },
           [](json& q) {
             q["kv_cache_scheme"] = {{"num_bits", 8}, {"type", "float"}};
           },
           [](json& q) {
             q["config_groups"]["attention"] = {{"targets", {"LlamaAttention"}}, {"weights", nullptr}};
           }}) {
    spoiled_folder at("int4_group");
    at.set_config(c);
    check_ok(at.open());
  }
  const auto refused = [](const change& c, const std::string& words) {
    spoiled_folder at("int4_group");
    at.set_config(c);
    check_failed(at.open(), error_kind::bad_input, words);
  };
  refused([](json& q) { q["sparsity_config"] = {{"format", "sparse-24-bitmask"}}; }, "sparsity_config: sparse weights");
  refused([](json& q) { q["sparsity_config"] = {{"global_sparsity", 0.5}}; }, "sparsity_config: sparse weights");
  refused(
      [](json& q) {
        q["transform_config"] = {{"config_groups", {{"R1", {{"type", "hadamard"}}}}}};
      },
      "transform_config: transformed weights");
}

BOOST_AUTO_TEST_CASE(a_cache_of_few_bits_alone_changes_no_weight) {
  const scratch_folder at;
  const std::vector<owned_tensor> tensors{{"model.norm.weight", core::dtype::bf16, {4}},
                                          {"model.layers.0.self_attn.k_scale", core::dtype::f32, {1}}};
  check_ok(write_weights_folder(at.path(), all_to_write(tensors)));
  at.write("config.json", R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {},
                              "kv_cache_scheme": {"num_bits": 8, "type": "float"}}})");
  const auto s = check_ok(open_source(at.path()));
  BOOST_REQUIRE(s->tensors.size() == 1U);
  BOOST_TEST(s->tensors[0].name == "model.norm.weight");
}

BOOST_AUTO_TEST_CASE(ranges_of_activations_are_no_tensors_of_the_model) {
  spoiled_folder at("w8a8");
  for (const char* name : {"model.layers.0.mlp.up_proj.input_scale", "model.layers.0.self_attn.k_scale"}) {
    at.tensors.push_back({name, core::dtype::f32, {1}, {}, {}});
    at.bytes.emplace_back(4);
  }
  const auto s = check_ok(at.open());
  BOOST_TEST(s->tensors.size() == 2U);
}

BOOST_AUTO_TEST_CASE(numbers_of_8_bits_without_a_configuration_are_refused) {
  spoiled_folder at("fp8");
  at.set_config([](json& q) { q = nullptr; });
  check_failed(at.open(), error_kind::bad_input, "has 8-bit floating-point numbers (F8_E4M3)");
}

BOOST_AUTO_TEST_CASE(damaged_folders_are_refused_or_read_within_a_multiple_of_their_size) {
  for (const auto& name : cases()) {
    const scratch_folder at;
    const auto config = scratch_folder::read(fixtures / name / "config.json");
    const auto weights = scratch_folder::read(fixtures / name / "model.safetensors");
    const auto look = [&](size_t i, const std::string&) {
      const memory_mark memory;
      if (const auto s = hugging_face_format.open(at.path(), {})) {
        source_reader reader(*s);
        for (const auto& t : s->tensors) {
          std::vector<std::byte> out(core::numel_of(t.shape) * core::size_of(t.type));
          // The read may fail, for example if the scales are missing.
          (void)reader.read(t, 0, core::numel_of(t.shape), out);
        }
      }
      BOOST_TEST_REQUIRE(memory.taken() < 64 * (config.size() + weights.size()) + (size_t{1} << 20), name << " " << i);
    };
    at.write("model.safetensors", weights);
    for_mutations(
        config, 1, json_hints,
        [&](size_t i, const std::string& text) {
          at.write("config.json", text);
          look(i, text);
        },
        150);
    at.write("config.json", config);
    for_mutations(
        weights, 2, json_hints,
        [&](size_t i, const std::string& text) {
          at.write("model.safetensors", text);
          look(i, text);
        },
        150);
  }
}

BOOST_AUTO_TEST_SUITE_END()
