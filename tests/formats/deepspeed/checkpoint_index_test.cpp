// Tests which files belong to a rank of other degrees. Compares a folder of two stages, two tensor-parallel and two
// data-parallel ranks with the results of DeepSpeedCheckpoint for it (tests/peer/make_megatron_fixtures.py).
#include "formats/deepspeed/checkpoint_index.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/safetensors/safetensors.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/torch/archive_writer.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(checkpoint_index)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/megatron";
const parallel_degrees all_degrees[] = {{2, 2, 2}, {1, 1, 1}, {1, 2, 1}, {2, 1, 1}, {1, 2, 2}};

file_lists lists(const core::result<file_lists>& r) {
  check_ok(r);
  return *r;
}

std::vector<std::string> names(const core::result<path_list>& files) {
  check_ok(files);
  std::vector<std::string> out;
  for (const auto& f : *files) out.push_back(f.filename());
  return out;
}

checkpoint_index opened(const parallel_degrees& d) {
  auto index = check_ok(checkpoint_index::open(fixtures / "folder", {d.pipeline, d.tensor, d.data, -1}));
  return std::move(*index);
}

core::result<formats::checkpoint_index> open_index(const fs::path& folder) {
  return formats::checkpoint_index::open(folder);
}

/// Compares a tensor's pieces with a tensor of the fixture, and records which tensors were compared.
class expectation {
 public:
  expectation() : file_(safetensors_file::open(fixtures / "folder.safetensors")) { check_ok(file_); }

  void same(const tensor_source& from, const tensor_entry& t, const std::string& name) {
    const auto* wanted = file_->find(name);
    BOOST_REQUIRE_MESSAGE(wanted != nullptr, name);
    BOOST_TEST((t.shape == wanted->shape && t.type == wanted->type), name);
    std::vector<std::byte> bytes(wanted->end - wanted->begin);
    source_reader reader(from);
    check_ok(reader.read(t, 0, core::numel_of(t.shape), bytes));
    BOOST_TEST(same_bytes(bytes, file_->bytes(*wanted).value()), name);
    seen_.insert(name);
  }
  void same(const tensor_source& s, const std::string& prefix) {
    for (const auto& t : s.tensors) same(s, t, prefix + "." + t.name);
  }
  void same(const merged_state& s, const state_value& v, const std::string& name) {
    if (v.is == state_value::form::tensor) {
      tensor_source from;
      from.files = s.files;
      same(from, v.tensor, name);
    }
    for (size_t i = 0; i < v.items.size(); ++i) {
      std::string key = fmt::to_string(i);
      if (v.is == state_value::form::dict)
        key = std::visit(
            [](const auto& k) {
              if constexpr (std::is_same_v<std::decay_t<decltype(k)>, std::string>)
                return k;
              else
                return fmt::to_string(k);
            },
            v.keys[i]);
      same(s, v.items[i], name + "." + key);
    }
  }
  [[nodiscard]] size_t unseen() const { return file_->entries().size() - seen_.size(); }

 private:
  core::result<safetensors_file> file_;
  std::set<std::string> seen_;
};

void write_model_file(const fs::path& path, int64_t pp, int64_t tp) {
  auto root = torch_value::dict();
  root.set("module", torch_value());
  if (pp > 0) root.set("checkpoint_parallel_dimensions", torch_value::dict().set("pp_degree", pp).set("tp_degree", tp));
  check_ok(write_torch_archive(path, root, {}));
}

}  // namespace

BOOST_AUTO_TEST_CASE(degrees_are_reshaped_as_the_reference_does) {
  using cells = file_lists;
  BOOST_TEST((lists(reshape_3d({2, 2, 2}, {1, 1, 1})) == cells{{0, 4, 1, 5, 2, 6, 3, 7}}));
  BOOST_TEST((lists(reshape_3d({2, 2, 2}, {1, 2, 1})) == cells{{0, 4, 2, 6}, {1, 5, 3, 7}}));
  BOOST_TEST((lists(reshape_3d({2, 2, 2}, {1, 2, 2})) == cells{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  BOOST_TEST((lists(reshape_3d({2, 2, 2}, {2, 1, 1})) == cells{{0, 4, 1, 5}, {2, 6, 3, 7}}));
  BOOST_TEST(
      (lists(reshape_3d({4, 2, 2}, {2, 1, 2})) == cells{{0, 8, 1, 9}, {4, 12, 5, 13}, {2, 10, 3, 11}, {6, 14, 7, 15}}));
  BOOST_TEST(
      (lists(reshape_2d({4, 4, 1}, {2, 2, 1})) == cells{{0, 1, 4, 5}, {2, 3, 6, 7}, {8, 9, 12, 13}, {10, 11, 14, 15}}));
  BOOST_TEST(file_number({2, 3, 4}, 1, 2, 3) == 3U * 6 + 3 + 2);
}

BOOST_AUTO_TEST_CASE(growth_and_degrees_that_do_not_divide_are_refused) {
  for (const auto& to : {parallel_degrees{4, 2, 2}, {2, 4, 2}, {2, 2, 4}})
    check_failed(reshape_3d({2, 2, 2}, to), core::error_kind::bad_input, "Expansion reshape not supported");
  check_failed(reshape_2d({1, 4, 1}, {1, 3, 1}), core::error_kind::bad_input, "4 files cannot be divided over 3");
  check_failed(reshape_2d({0, 4, 1}, {0, 3, 1}), core::error_kind::limit, "degrees");
}

BOOST_AUTO_TEST_CASE(files_of_every_rank_are_those_of_the_reference) {
  std::ifstream in(fixtures / "folder.json");
  const auto wanted = nlohmann::json::parse(in);
  size_t asked = 0;
  for (const auto& d : all_degrees) {
    const auto index = opened(d);
    for (uint32_t data = 0; data < d.data; ++data)
      for (uint32_t p = 0; p < d.pipeline; ++p)
        for (uint32_t t = 0; t < d.tensor; ++t) {
          BOOST_TEST_INFO_SCOPE("data " << data);
          BOOST_TEST_INFO_SCOPE("p " << p);
          BOOST_TEST_INFO_SCOPE("t " << t);
          const std::string at = fmt::format("{}{}{}/{}{}{}", d.pipeline, d.tensor, d.data, p, t, data);
          BOOST_TEST((names(index.zero_files_of(p, t, data)) == wanted.at(at)), at);
          ++asked;
          if (data > 0) continue;
          BOOST_TEST((names(index.model_files_of(p, t)) == wanted.at(at + "/model")), at);
          const auto layers = check_ok(index.transformer_files(p, t));
          std::vector<std::vector<std::string>> by_layer;
          for (const auto& l : *layers) by_layer.push_back(names(l));
          BOOST_TEST((by_layer == wanted.at(at + "/layers")), at);
          asked += 2;
          if (p > 0) continue;
          BOOST_TEST((names(index.embedding_files(t)) == wanted.at(at + "/embedding")), at);
          ++asked;
        }
  }
  BOOST_TEST(asked == wanted.size());
}

BOOST_AUTO_TEST_CASE(joined_states_are_those_of_the_reference) {
  expectation expected;
  for (const auto& d : all_degrees) {
    const auto index = opened(d);
    for (uint32_t data = 0; data < d.data; ++data)
      for (uint32_t p = 0; p < d.pipeline; ++p)
        for (uint32_t t = 0; t < d.tensor; ++t) {
          BOOST_TEST_INFO_SCOPE("data " << data);
          BOOST_TEST_INFO_SCOPE("p " << p);
          BOOST_TEST_INFO_SCOPE("t " << t);
          const std::string at = fmt::format("{}{}{}/{}{}{}", d.pipeline, d.tensor, d.data, p, t, data);
          const auto zero = check_ok(index.state_for_rank(p, t, data));
          expected.same(*zero, zero->value, at + "/zero");
          const auto* inner = zero->value.find("optimizer_state_dict");
          BOOST_REQUIRE(inner != nullptr);
          BOOST_TEST(inner->find("partition_count")->items[1].integer == int64_t{d.data});
          BOOST_TEST(inner->find("group_paddings")->items[0].integer == 0);
          if (data > 0) continue;
          const auto model = check_ok(index.model_state(p, t));
          expected.same(*model, *model->value.find("rows"), at + "/rows");
          const auto layers = check_ok(index.transformer_state(p, t));
          for (size_t i = 0; i < layers->size(); ++i) expected.same((*layers)[i], fmt::format("{}/layers.{}", at, i));
          if (p > 0) continue;
          const auto embedding = index.embedding_state(t), norm = index.final_norm_state(t);
          check_ok(embedding);
          check_ok(norm);
          expected.same(*embedding, at + "/embedding");
          expected.same(*norm, at + "/norm");
        }
  }
  BOOST_TEST(expected.unseen() == 0U);
}

BOOST_AUTO_TEST_CASE(a_folders_degrees_and_layers_are_read) {
  const auto index = opened({2, 2, 2});
  BOOST_TEST((index.written() == parallel_degrees{2, 2, 2}));
  BOOST_TEST(index.iteration() == 7);
  BOOST_TEST(index.layer_keys() ==
                 (std::vector<std::string>{"layer_01", "layer_03", "layer_04", "layer_05", "layer_06", "layer_08"}),
             boost::test_tools::per_element());
  BOOST_TEST((index.transformer_layers(1).value() == std::vector<std::string>{"layer_05", "layer_06"}));
  check_failed(index.zero_files_of(0, 2, 0), core::error_kind::bad_input, "no rank (0, 2, 0)");
  const std::vector<std::string> ignored{"optimizer_state_dict"};
  const auto without = check_ok(index.state_for_rank(0, 0, 0, ignored));
  BOOST_TEST(without->value.find("optimizer_state_dict") == nullptr);
  BOOST_TEST(without->value.find("ds_version")->text == "0.19.8");
}

BOOST_AUTO_TEST_CASE(degrees_that_are_not_given_come_from_the_files) {
  const scratch_folder at;
  for (int i = 0; i < 4; ++i) write_model_file(at / fmt::format("mp_rank_{:02}_model_states.pt", i), 0, 0);
  auto index = check_ok(open_index(at / ""));
  BOOST_TEST((index->written() == parallel_degrees{1, 4, 1}));
  for (int i = 0; i < 2; ++i) write_model_file(at / fmt::format("layer_01-model_{:02}-model_states.pt", i), 0, 0);
  index = open_index(at / "");
  check_ok(index);
  BOOST_TEST((index->written() == parallel_degrees{2, 2, 1}));
}

BOOST_AUTO_TEST_CASE(folders_that_contradict_themselves_are_refused) {
  const scratch_folder at;
  check_failed(open_index(at / ""), core::error_kind::bad_input, "no file mp_rank_XX_model_states.pt");
  write_model_file(at / "mp_rank_00_model_states.pt", 1, 2);
  check_failed(open_index(at / ""), core::error_kind::mismatch, "require 2 model files, got 1");
  write_model_file(at / "mp_rank_01_model_states.pt", 2, 1);
  check_failed(open_index(at / ""), core::error_kind::mismatch, "files before it state 1 and 2");
  write_model_file(at / "mp_rank_01_model_states.pt", 0, 0);
  check_failed(open_index(at / ""), core::error_kind::mismatch, "lacks checkpoint_parallel_dimensions");
}

BOOST_AUTO_TEST_CASE(values_of_different_forms_are_not_folded) {
  state_value a, b;
  a.is = b.is = state_value::form::dict;
  a.keys = b.keys = {std::string("x")};
  a.items.resize(1);
  b.items.resize(1);
  b.items[0].is = state_value::form::integer;
  check_failed(merge_state(a, b), core::error_kind::mismatch, "'x' is None on one rank and an int on another");
  a.items[0].is = b.items[0].is = state_value::form::list;
  b.items[0].items.resize(2);
  check_failed(merge_state(a, b), core::error_kind::mismatch, "'x' has 0 elements on one rank and 2");
}

BOOST_AUTO_TEST_SUITE_END()
