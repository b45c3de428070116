// Compares joining and splitting the files of 1, 2 and 4 ranks with DeepSpeed's MegatronSDLoader
// (tests/peer/make_megatron_fixtures.py), and tests lists of files in JSON.
#include "formats/deepspeed/state_dict_factory.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "core/tensor_view.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/torch/archive.hpp"
#include "formats/torch/archive_writer.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(state_dict_factory)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/megatron";

std::vector<fs::path> parts(uint32_t tp) {
  std::vector<fs::path> out;
  for (uint32_t r = 0; r < tp; ++r) out.push_back(fixtures / "parts" / fmt::format("tp{}_{}.pt", tp, r));
  return out;
}

safetensors_file expected() {
  auto file = check_ok(safetensors_file::open(fixtures / "parts.safetensors"));
  return std::move(*file);
}

std::vector<std::byte> bytes_in(const tensor_source& s, const tensor_entry& t) {
  std::vector<std::byte> out(core::numel_of(t.shape) * core::size_of(t.type));
  source_reader reader(s);
  check_ok(reader.read(t, 0, core::numel_of(t.shape), out));
  return out;
}

core::result<checkpoint_list> parsed(const std::string& text) { return parse_checkpoint_list(text, "/m", "list.json"); }

void write_module(const fs::path& path, const std::string& key, int64_t ranks = 0, double version = -1) {
  const owned_tensor t("norm.weight", core::dtype::f32, {2});
  auto module = torch_value::dict();
  module.set(t.name, torch_view{0, 0, t.shape});
  auto root = torch_value::dict();
  if (key.empty()) {
    root = std::move(module);
  } else {
    root.set(key, std::move(module));
  }
  if (ranks > 0) root.set("mp_world_size", ranks);
  if (version >= 0) root.set("checkpoint_version", version);
  const torch_storage storage{t.type, 2, t.data, {}};
  check_ok(write_torch_archive(path, root, std::span(&storage, 1)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_version_and_number_of_ranks_equals_the_reference) {
  const auto file = expected();
  size_t compared = 0;
  for (const double version : {0.0, 1.0, 2.0})
    for (const auto& [from, to] : std::vector<std::pair<uint32_t, uint32_t>>{{4, 2}, {4, 1}, {1, 4}, {2, 4}, {2, 2}})
      for (uint32_t rank = 0; rank < to; ++rank) {
        BOOST_TEST_INFO_SCOPE("rank " << rank);
        BOOST_TEST_INFO_SCOPE("version " << version);
        const auto files = parts(from);
        module_load_options o{.mp_world_size = to, .mp_rank = rank, .version = version};
        const auto loaded = check_ok(load_module(files, o));
        BOOST_TEST(loaded->merge_count == std::max(1U, from / to));
        BOOST_TEST(loaded->path == files[rank * from / to]);
        BOOST_TEST(loaded->module.tensors.size() == 12U);
        for (const auto& t : loaded->module.tensors) {
          const std::string name = fmt::format("{:g}/{}to{}/{}/{}", version, from, to, rank, t.name);
          const auto* wanted = file.find(name);
          // For later versions the fixture contains only queries, keys and values, because other tensors do not depend
          // on it.
          if (version > 0 && wanted == nullptr) continue;
          BOOST_REQUIRE_MESSAGE(wanted != nullptr, name);
          ++compared;
          if (t.name == "final_linear.weight" && from > to) {  // DeepSpeed's loader keeps only the first file's part
            BOOST_TEST((t.shape == std::vector<int64_t>{4 / to, 8}), name);
            continue;
          }
          BOOST_TEST((t.shape == wanted->shape), name);
          BOOST_TEST(same_bytes(bytes_in(loaded->module, t), file.bytes(*wanted).value()), name);
        }
      }
  BOOST_TEST(compared == 13U * (12 + 2 + 2));
}

BOOST_AUTO_TEST_CASE(final_linear_is_cut_and_joined_again) {
  const auto files = parts(2);
  const auto whole = check_ok(load_module(files, {.mp_world_size = 1}));
  const auto* t = find_tensor(whole->module, "final_linear.weight", tensor_kind::weight);
  BOOST_TEST((t->shape == std::vector<int64_t>{4, 8}));
  std::vector<std::byte> both;
  for (uint32_t r = 0; r < 2; ++r) {
    const auto one = check_ok(load_module(files, {.mp_world_size = 2, .mp_rank = r}));
    const auto bytes = bytes_in(one->module, *find_tensor(one->module, t->name, tensor_kind::weight));
    both.insert(both.end(), bytes.begin(), bytes.end());
  }
  BOOST_TEST(same_bytes(bytes_in(whole->module, *t), both));
}

BOOST_AUTO_TEST_CASE(quantised_weights_and_scales_are_those_of_the_reference) {
  const auto file = expected();
  struct one_case {
    uint32_t from, to, groups;
    std::vector<int64_t> scales;
  };
  for (const auto& c : {one_case{2, 1, 4, {1, 4, 16}}, one_case{2, 2, 4, {1, 4, 8}}, one_case{4, 2, 2, {1, 4, 8}}}) {
    const auto files = parts(c.from);
    module_load_options o{.mp_world_size = c.to, .version = 0.0, .quantised = true};
    o.quantise.groups = c.groups;
    const auto loaded = check_ok(load_module(files, o));
    BOOST_REQUIRE(loaded->scales.has_value());
    const std::string at = fmt::format("quantised/{}to{}/", c.from, c.to);
    const auto* scales = file.find(at + "scales");
    BOOST_REQUIRE(scales != nullptr);
    BOOST_TEST((scales->shape == c.scales), at);
    const auto& table = *loaded->scales;
    BOOST_TEST(
        (std::vector<int64_t>{static_cast<int64_t>(table.layers), 4, static_cast<int64_t>(table.width)} == c.scales));
    BOOST_TEST(same_bytes(std::as_bytes(std::span(table.values)), file.bytes(*scales).value()), at);
    BOOST_TEST(loaded->quantised.size() == 4U);
    for (const auto& [name, weight] : loaded->quantised) {
      const auto* wanted = file.find(at + name);
      BOOST_REQUIRE_MESSAGE(wanted != nullptr, at + name);
      BOOST_TEST((weight.shape == wanted->shape), at + name);
      BOOST_TEST(same_bytes(std::as_bytes(std::span(weight.values)), file.bytes(*wanted).value()), at + name);
      BOOST_TEST(find_tensor(loaded->module, name, tensor_kind::weight) == nullptr);
    }
    BOOST_TEST(loaded->module.tensors.size() == 8U);
  }
}

BOOST_AUTO_TEST_CASE(a_quantised_part_times_its_scales_is_close_to_the_weight) {
  const auto files = parts(1);
  module_load_options o{.mp_world_size = 4, .mp_rank = 3, .quantised = true};
  o.quantise = {.bits = 8, .groups = 4, .mlp_extra_grouping = false};
  const auto loaded = check_ok(load_module(files, o));
  o.quantised = false;
  const auto plain = check_ok(load_module(files, o));
  for (const auto& [name, weight] : loaded->quantised) {
    const auto* t = find_tensor(plain->module, name, tensor_kind::weight);
    BOOST_REQUIRE(t != nullptr);
    BOOST_TEST((t->shape == weight.shape), name);
    std::vector<float> values(weight.values.size());
    source_reader reader(plain->module);
    check_ok(reader.read(*t, 0, values.size(), std::as_writable_bytes(std::span(values))));
    const auto row = static_cast<size_t>(*layer_matrix_of(name));
    for (size_t i = 0; i < values.size(); ++i) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      const float scale = loaded->scales->values[row * loaded->scales->width + i / (values.size() / 4)];
      BOOST_TEST(std::abs(values[i] - static_cast<float>(weight.values[i]) * scale) <= scale, name);
    }
  }
}

BOOST_AUTO_TEST_CASE(groups_have_their_own_scale) {
  const std::vector<float> weight{1, -2, 0.5F, 0.25F};
  const auto q = check_ok(quantise(weight, 8, 2));
  BOOST_TEST(q->values == (std::vector<int8_t>{64, -128, 127, 64}), boost::test_tools::per_element());
  BOOST_TEST(q->scales[0] == 4.00001F / 256, boost::test_tools::tolerance(1e-6F));
  check_failed(quantise(weight, 8, 3), core::error_kind::bad_input, "4 elements cannot be divided into 3 groups");
  check_failed(quantise(weight, 9, 2), core::error_kind::bad_input, "2 to 8 bits");
  check_failed(quantise(std::vector<float>{NAN, 1}, 8, 1), core::error_kind::numeric, "not a number");
  check_failed(quantise(std::vector<float>{INFINITY, 1}, 8, 1), core::error_kind::numeric, "an infinite value");
}

BOOST_AUTO_TEST_CASE(the_module_is_found_under_its_key) {
  const scratch_folder at;
  write_module(at / "module.pt", "module");
  write_module(at / "model.pt", "model", 1, 2.0);
  write_module(at / "bare.pt", "");
  write_module(at / "other.pt", "net", 2);
  const auto load = [&](const char* name, std::optional<std::string> key) {
    const std::vector<fs::path> files{at / name};
    return load_module(files, {.module_key = std::move(key)});
  };
  check_ok(load("module.pt", "auto"));
  const auto model = check_ok(load("model.pt", "auto"));
  BOOST_TEST((model->version == qkv_version::v2));  // checkpoint_version in the file determines the version
  check_ok(load("bare.pt", std::nullopt));
  check_failed(load("bare.pt", "auto"), core::error_kind::bad_input, "'module' and 'model', got none");
  check_failed(load("module.pt", "net"), core::error_kind::bad_input, "no key 'net'");
  check_failed(load("other.pt", "net"), core::error_kind::mismatch, "was saved by 2 ranks, the list has 1");
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_loaded_are_refused) {
  const auto files = parts(4);
  check_failed(load_module(files, {.mp_world_size = 3}), core::error_kind::bad_input, "do not divide one another");
  check_failed(load_module(files, {.mp_world_size = 2, .mp_rank = 2}), core::error_kind::bad_input, "rank 2 of 2");
  check_failed(load_module({}, {}), core::error_kind::bad_input, "the list of files is empty");
  check_failed(load_module(files, {.mp_world_size = 4, .version = 3.0}), core::error_kind::bad_input, "got 3");
  const scratch_folder at;
  write_module(at / "a.pt", "module");
  write_module(at / "b.pt", "module");
  const std::vector<fs::path> two{at / "a.pt", at / "b.pt"};
  check_failed(load_module(two, {}), core::error_kind::bad_input, "is not a Megatron module");
}

BOOST_AUTO_TEST_CASE(lists_give_files_and_versions) {
  const auto list = parsed(R"({"type": "Megatron", "checkpoints": ["a.pt", "/x/b.pt"], "version": 1.0, "mp_size": 2})");
  check_ok(list);
  BOOST_TEST((list->checkpoints == std::vector<fs::path>{"/m/a.pt", "/x/b.pt"}));
  BOOST_TEST(*list->version == 1.0);
  BOOST_TEST(list->parallelization == "pp");
  BOOST_TEST(list->mp_size == 2U);
  const auto inference = parsed(R"({"type": "DS_model", "base_dir": "sub", "dtype": "float16", "tp_size": 2,
    "parallelization": "tp", "version": null,
    "checkpoints": {"non_tp": ["non-tp.pt"], "tp": ["tp_00_00.pt", "tp_01_00.pt"]}})");
  check_ok(inference);
  BOOST_TEST((inference->type == checkpoint_list::kind::ds_model));
  BOOST_TEST((inference->tp == std::vector<fs::path>{"/m/sub/tp_00_00.pt", "/m/sub/tp_01_00.pt"}));
  BOOST_TEST((inference->non_tp == std::vector<fs::path>{"/m/sub/non-tp.pt"}));
  BOOST_TEST(inference->tp_size == 2U);
  BOOST_TEST(!inference->version.has_value());
}

BOOST_AUTO_TEST_CASE(lists_that_cannot_be_followed_are_refused) {
  const auto bad = core::error_kind::bad_input;
  check_failed(parsed("{"), bad, "list.json: wanted a JSON object");
  check_failed(parsed(R"({"type": "megatron", "checkpoints": ["a"]})"), bad, "got 'megatron'");
  check_failed(parsed(R"({"type": "Megatron"})"), bad, "'checkpoints' is missing");
  check_failed(parsed(R"({"type": "Megatron", "checkpoints": []})"), bad, "is empty");
  check_failed(parsed(R"({"type": "Megatron", "checkpoints": [3]})"), bad, "names of files");
  check_failed(parsed(R"({"type": "bloom", "checkpoints": {}})"), bad, "neither 'non_tp' nor 'tp'");
  check_failed(parsed(R"({"type": "Megatron", "checkpoints": ["a"], "version": "1"})"), bad, "a number for 'version'");
  check_failed(parsed(R"({"type": "Megatron", "checkpoints": ["a"], "mp_size": -1})"), bad, "'mp_size'");
  check_failed(parsed(R"({"type": "Megatron", "checkpoints": ["a"], "parallelization": "dp"})"), bad, "'pp' or 'tp'");
  check_failed(read_checkpoint_list("/nowhere/list.json"), core::error_kind::io, "list.json");
}

BOOST_AUTO_TEST_CASE(a_state_dict_gives_its_module_and_takes_another_with_and_without_that_level) {
  const scratch_folder f;
  const auto state_of = [&](const char* key) {
    write_module(f / "m.pt", key, 2, 1.0);
    const auto file = check_ok(torch_archive::open(f / "m.pt"));
    auto state = check_ok(read_state(*file, file->root(), 0));
    return std::move(*state);
  };
  for (const std::string key : {"module", "model", "weights"}) {
    BOOST_TEST_INFO_SCOPE(key);
    const auto state = state_of(key.c_str());
    const std::optional<std::string> by = key == "weights" ? key : "auto";
    const auto module = check_ok(get_module(state, by));
    BOOST_TEST_REQUIRE(module->find(std::string("norm.weight")) != nullptr);
    BOOST_TEST((module->find(std::string("norm.weight"))->is == state_value::form::tensor));
    auto other = *module;
    other.erase(std::string("norm.weight"));
    const auto changed = check_ok(set_module(state, other, by));
    BOOST_TEST(get_module(*changed, by)->find(std::string("norm.weight")) == nullptr);
    // Values outside of the module stay unchanged.
    BOOST_TEST_REQUIRE(changed->find(std::string("mp_world_size")) != nullptr);
    BOOST_TEST(changed->find(std::string("mp_world_size"))->integer == 2);
    const auto back = check_ok(set_module(*changed, *module, by));
    const auto again = get_module(*back, by);
    const auto& tensor = again->find(std::string("norm.weight"))->tensor;
    BOOST_TEST((tensor == module->find(std::string("norm.weight"))->tensor));
  }
  // If no key of the module is given, the state dict itself is the module.
  const auto plain = state_of("");
  BOOST_TEST(get_module(plain, std::nullopt)->find(std::string("norm.weight")) != nullptr);
  BOOST_TEST(set_module(plain, {}, std::nullopt)->find(std::string("norm.weight")) == nullptr);
  check_failed(get_module(plain), core::error_kind::bad_input,
               "the state dict: wanted one of the keys 'module' and 'model', got none");
  check_failed(get_module(plain, "weights"), core::error_kind::bad_input, "there is no key 'weights'");
  check_failed(get_module({}), core::error_kind::bad_input, "a state dict was wanted, got no dict");
}

BOOST_AUTO_TEST_SUITE_END()
