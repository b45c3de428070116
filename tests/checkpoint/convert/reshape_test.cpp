// Tests checkpoints written for other degrees and read again: every tensor keeps its bytes at any degrees.
#include "checkpoint/convert/reshape.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoint/convert/reshape_plan.hpp"
#include "checkpoint/convert/reshape_rules.hpp"
#include "core/tensor_view.hpp"
#include "formats/deepspeed/source.hpp"
#include "formats/megatron/published_patterns.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/torch/archive.hpp"
#include "formats/torch/zip_crc32.hpp"
#include "formats/torch/zip_reader.hpp"
#include "tests/counted_memory.hpp"
#include "tests/formats/newest_in.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(reshape)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

using shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

/// Returns fp32 master weights and, if requested, two moments of each, in one file of random bytes.
tensor_source made(const scratch_folder& at, const shapes& parameters, bool has_optimizer = true) {
  tensor_source s;
  s.folder = at / "";
  s.format = "made";
  uint64_t offset = 0;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape, tensor_kind kind,
                       const std::string& moment) {
    const uint64_t count = core::numel_of(shape);
    s.tensors.push_back({name, kind, moment, core::dtype::f32, shape, {{0, 0, count, offset, {}}}});
    offset += count * 4;
  };
  for (const auto& [name, shape] : parameters) {
    s.parameter_order.push_back(name);
    add(name, shape, has_optimizer ? tensor_kind::master : tensor_kind::weight, "");
    if (!has_optimizer) continue;
    add(name, shape, tensor_kind::moment, "exp_avg");
    add(name, shape, tensor_kind::moment, "exp_avg_sq");
  }
  auto bytes = noise(offset, parameters.size());
  // Clears a bit of each exponent, so that all values are below 2 and none is infinite or NaN.
  for (size_t i = 3; i < bytes.size(); i += 4) bytes[i] &= std::byte{0xBF};
  std::ofstream(at / "data", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(offset));
  s.files = {{at / "data", offset}};
  s.run.steps = s.run.applied_updates = 5;
  s.run.client_state = R"({"note": [1, {"a": null}]})";
  check_ok(complete(s));
  return s;
}

using contents = std::map<std::string, std::pair<std::vector<int64_t>, std::vector<std::byte>>>;

/// Returns every tensor's bytes by its name and moment; master weights and weights share one entry.
contents contents_of(const tensor_source& s) {
  contents out;
  source_reader reader(s);
  for (const auto& t : s.tensors) {
    std::vector<std::byte> bytes(core::numel_of(t.shape) * core::size_of(t.type));
    check_ok(reader.read(t, 0, core::numel_of(t.shape), bytes));
    out[t.name + "/" + t.moment] = {t.shape, std::move(bytes)};
  }
  return out;
}

void check_same(const contents& got, const contents& wanted, const std::string& where) {
  BOOST_TEST(got.size() == wanted.size(), where);
  for (const auto& [name, value] : wanted) {
    const auto at = got.find(name);
    BOOST_REQUIRE_MESSAGE(at != got.end(), where << " lacks " << name);
    BOOST_TEST((at->second == value), where << ": " << name);
  }
}

std::string shown(const parallel_degrees& d) { return fmt::format("pp{} tp{} dp{}", d.pipeline, d.tensor, d.data); }

shapes megatron_layer(const std::string& prefix) {
  return {{prefix + "input_layernorm.weight", {8}},
          {prefix + "self_attention.query_key_value.weight", {24, 8}},
          {prefix + "self_attention.query_key_value.bias", {24}},
          {prefix + "self_attention.dense.weight", {8, 8}},
          {prefix + "mlp.dense_h_to_4h.weight", {32, 8}},
          {prefix + "mlp.dense_h_to_4h.bias", {32}},
          {prefix + "mlp.dense_4h_to_h.weight", {8, 32}}};
}

/// Returns parameters under a pipeline's own names: layer 1 is the embedding, 3 to 6 are transformer layers, 8 is the
/// final norm.
shapes megatron_pipeline() {
  shapes out{{"1.word_embeddings.weight", {12, 8}}, {"1.position_embeddings.weight", {5, 8}}};
  for (int layer = 3; layer < 7; ++layer)
    for (auto& p : megatron_layer(fmt::format("{}.", layer))) out.push_back(std::move(p));
  out.emplace_back("8.weight", std::vector<int64_t>{8});
  return out;
}

shapes gpt2() {
  shapes out{{"wte.weight", {13, 8}}, {"wpe.weight", {4, 8}}};
  for (int i = 0; i < 3; ++i) {
    const auto h = fmt::format("h.{}.", i);
    out.insert(out.end(), {{h + "ln_1.weight", {8}},
                           {h + "attn.c_attn.weight", {8, 24}},
                           {h + "attn.c_attn.bias", {24}},
                           {h + "attn.c_proj.weight", {8, 8}},
                           {h + "mlp.c_fc.weight", {8, 32}},
                           {h + "mlp.c_fc.bias", {32}},
                           {h + "mlp.c_proj.weight", {32, 8}}});
  }
  out.emplace_back("ln_f.weight", std::vector<int64_t>{8});
  return out;
}

core::result<reshape_report> rewritten(const tensor_source& from, const fs::path& root, const reshape_options& o) {
  return checkpoint::reshape(from, root, o);
}

reshape_options to(const parallel_degrees& d, uint32_t stage = 2) {
  reshape_options o;
  o.to = d;
  o.write.stage = stage;
  return o;
}

/// Returns the folder in which tests/peer/deepspeed_opens_reshaped.py expects the result, or the scratch folder if none
/// is set.
fs::path place(const scratch_folder& at) {
  const char* wanted = std::getenv("TROUPE_RESHAPED");
  return wanted == nullptr ? at / "" : fs::path(wanted);
}

/// Converts a checkpoint through a list of degrees and stages, each time from the folder written before, and checks the
/// tensors of every folder.
void chain(const tensor_source& first, const scratch_folder& at,
           const std::vector<std::pair<parallel_degrees, uint32_t>>& steps) {
  const auto wanted = contents_of(first);
  tensor_source from = first;
  int number = 0;
  for (const auto& [d, stage] : steps) {
    const fs::path root = at / fmt::format("out{}", number++);
    const auto report = rewritten(from, root, to(d, stage));
    BOOST_REQUIRE_MESSAGE(report.has_value(), shown(d) << ": " << (report ? "" : report.error().text));
    BOOST_TEST(files_in(report->folder) == report->files);
    auto back = read_deepspeed_source(newest_in(root));
    BOOST_REQUIRE_MESSAGE(back.has_value(), shown(d) << ": " << (back ? "" : back.error().text));
    check_same(contents_of(*back), wanted, shown(d));
    BOOST_TEST(back->run.steps.value_or(0) == 5U);
    from = std::move(*back);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_megatron_pipeline_keeps_its_tensors_at_all_degrees) {
  const scratch_folder at;
  chain(
      made(at, megatron_pipeline()), at,
      {{{1, 1, 1}, 2}, {{1, 4, 2}, 2}, {{2, 2, 2}, 1}, {{4, 1, 1}, 3}, {{3, 2, 1}, 2}, {{1, 2, 3}, 3}, {{1, 1, 1}, 1}});
}

BOOST_AUTO_TEST_CASE(a_model_that_becomes_a_pipeline_gets_its_names_back) {
  const scratch_folder at;
  shapes parameters{{"embedding.word_embeddings.weight", {12, 8}}};
  for (int layer = 0; layer < 4; ++layer)
    for (auto& p : megatron_layer(fmt::format("transformer.layers.{}.", layer))) parameters.push_back(std::move(p));
  parameters.emplace_back("transformer.final_layernorm.weight", std::vector<int64_t>{8});
  chain(made(at, parameters), at, {{{2, 2, 1}, 2}, {{3, 1, 1}, 1}, {{1, 2, 2}, 2}});
}

BOOST_AUTO_TEST_CASE(gpt_2_is_cut_by_its_names_and_its_patterns_say_how_to_join_it) {
  const scratch_folder at;
  chain(made(at, gpt2()), at, {{{1, 4, 2}, 1}, {{2, 2, 1}, 3}, {{1, 1, 1}, 2}});
}

BOOST_AUTO_TEST_CASE(both_ends_of_a_pipeline_have_the_tied_parameters) {
  const scratch_folder at;
  shapes parameters{{"tied_modules.embed.word_embeddings.weight", {12, 8}}};
  for (int layer = 3; layer < 5; ++layer)
    for (auto& p : megatron_layer(fmt::format("{}.", layer))) parameters.push_back(std::move(p));
  parameters.emplace_back("6.weight", std::vector<int64_t>{8});
  chain(made(at, parameters), at, {{{2, 2, 1}, 1}, {{1, 1, 1}, 1}});
  const fs::path folder = at / "out0/global_step5";
  BOOST_TEST(fs::exists(folder / "layer_01-model_01-model_states.pt"));
  for (int rank = 0; rank < 4; ++rank) {
    BOOST_TEST_INFO_SCOPE("rank " << rank);
    const auto file =
        check_ok(torch_archive::open(folder / fmt::format("zero_pp_rank_0_mp_rank_{:02}_optim_states.pt", rank)));
    const auto& tree = file->tree();
    const auto mappings = tree.find(*tree.find(file->root(), "optimizer_state_dict"), "param_slice_mappings");
    BOOST_TEST(tree.find(tree.items(*mappings)[0], parameters[0].first).has_value());
  }
}

BOOST_AUTO_TEST_CASE(weights_alone_need_model_files_alone) {
  const scratch_folder at;
  chain(made(at, megatron_pipeline(), false), at, {{{1, 4, 2}, 2}, {{2, 2, 2}, 2}, {{1, 1, 1}, 2}});
  BOOST_TEST(files_in(at / "out1/global_step5") == 4U + 2 * 6);
}

BOOST_AUTO_TEST_CASE(stage_0_is_cut_over_tensor_parallel_ranks) {
  const scratch_folder at;
  const auto from = made(at, megatron_pipeline());
  check_ok(rewritten(from, at / "a", to({1, 2, 1}, 0)));
  const auto cut = check_ok(read_deepspeed_source(newest_in(at / "a")));
  check_ok(rewritten(*cut, at / "b", to({1, 1, 1}, 0)));
  const auto back = check_ok(read_deepspeed_source(newest_in(at / "b")));
  check_same(contents_of(*back), contents_of(from), "stage 0");
}

BOOST_AUTO_TEST_CASE(the_engine_may_compute_in_16_bits) {
  const scratch_folder at;
  const auto from = made(at, megatron_pipeline());
  auto o = to({2, 2, 2}, 1);
  o.write.weight_type = core::dtype::bf16;
  check_ok(rewritten(from, at / "a", o));
  const auto cut = check_ok(read_deepspeed_source(newest_in(at / "a")));
  auto got = *cut;
  size_t weights = 0;
  for (const auto& t : got.tensors)
    if (t.kind == tensor_kind::weight) {
      BOOST_TEST((t.type == core::dtype::bf16), t.name);
      ++weights;
    }
  BOOST_TEST(weights == megatron_pipeline().size());
  std::erase_if(got.tensors, [](const auto& t) { return t.kind == tensor_kind::weight; });
  check_same(contents_of(got), contents_of(from), "masters");
}

BOOST_AUTO_TEST_CASE(versions_of_query_key_value_are_changed_and_noted) {
  const scratch_folder at;
  const auto from = made(at, megatron_pipeline());
  const std::string name = "3.self_attention.query_key_value.weight";
  auto o = to({1, 2, 1});
  o.qkv_version = 0;
  o.to_qkv_version = 2;
  o.heads = 4;
  check_ok(rewritten(from, at / "a", o));
  auto second = check_ok(read_deepspeed_source(newest_in(at / "a")));
  BOOST_TEST(nlohmann::json::parse(second->run.client_state).at("checkpoint_version") == 2.0);
  const auto changed = contents_of(*second);
  const auto original = contents_of(from);
  const auto& before = original.at(name + "/").second;
  const auto& after = changed.at(name + "/").second;
  const auto rows = qkv_rows(qkv_version::v0, qkv_version::v2, 4, 2);
  for (size_t i = 0; i < rows.size(); ++i)
    BOOST_TEST(same_bytes(std::span(after).subspan(i * 32, 32), std::span(before).subspan(rows[i] * 32, 32)));
  auto back = to({1, 1, 2});  // the remaining options come from the folder's own description
  back.to_qkv_version = 0;
  back.heads = 4;
  check_ok(rewritten(*second, at / "b", back));
  const auto first = check_ok(read_deepspeed_source(newest_in(at / "b")));
  check_same(contents_of(*first), contents_of(from), "version 0 again");
}

BOOST_AUTO_TEST_CASE(folders_for_other_programs_hold_the_same_as_the_whole) {
  const scratch_folder at, second;
  const auto megatron = made(at, megatron_pipeline()), model = made(second, gpt2());
  for (const auto& [name, from, d] : {std::tuple{"megatron", &megatron, parallel_degrees{2, 2, 2}},
                                      {"megatron_tp", &megatron, {1, 2, 1}},
                                      {"gpt2", &model, {1, 2, 2}}}) {
    auto whole = to({1, 1, 1}, 1), cut = to(d, 1);
    whole.write.integer_step = cut.write.integer_step = true;
    // DeepSpeedCheckpoint joins layers in the order of version 2, whatever version the folder states.
    whole.qkv_version = cut.qkv_version = 2;
    check_ok(rewritten(*from, place(at) / name / "whole", whole));
    check_ok(rewritten(*from, place(at) / name / "cut", cut));
    const auto both = {read_deepspeed_source(newest_in(place(at) / name / "whole")),
                       read_deepspeed_source(newest_in(place(at) / name / "cut"))};
    for (const auto& back : both) {
      check_ok(back);
      check_same(contents_of(*back), contents_of(*from), name);
    }
  }
}

BOOST_AUTO_TEST_CASE(only_a_block_at_a_time_is_in_memory) {
  const scratch_folder at;
  const auto from = made(at, {{"0.word_embeddings.weight", {2048, 1024}}, {"1.mlp.dense_4h_to_h.weight", {512, 1024}}});
  const memory_mark mark;
  check_ok(rewritten(from, at / "a", to({1, 2, 1})));
  BOOST_TEST(mark.taken() < size_t{12} << 20);  // the source has 30 MiB, so the conversion must not keep it in memory
}

BOOST_AUTO_TEST_CASE(each_rank_has_the_rows_that_the_rules_give_it) {
  const scratch_folder at;
  const auto from = made(at, megatron_pipeline());
  check_ok(rewritten(from, at / "a", to({1, 2, 1})));
  for (int rank = 0; rank < 2; ++rank) {
    BOOST_TEST_INFO_SCOPE("rank " << rank);
    const auto file =
        check_ok(torch_archive::open(at / fmt::format("a/global_step5/mp_rank_{:02}_model_states.pt", rank)));
    const auto& tree = file->tree();
    const auto module = *tree.find(file->root(), "module");
    const auto shape = [&](const std::string& name) { return file->tensor(*tree.find(module, name)).value().shape; };
    BOOST_TEST((shape("3.self_attention.dense.weight") == std::vector<int64_t>{8, 4}));
    BOOST_TEST((shape("3.self_attention.query_key_value.bias") == std::vector<int64_t>{12}));
    BOOST_TEST((shape("1.word_embeddings.weight") == std::vector<int64_t>{6, 8}));
    BOOST_TEST((shape("1.position_embeddings.weight") == std::vector<int64_t>{5, 8}));
    BOOST_TEST(file->integer(*tree.find(file->root(), "mp_world_size")).value() == 2);
  }
}

BOOST_AUTO_TEST_CASE(patterns_outlive_a_pipeline) {
  const scratch_folder at;
  check_ok(rewritten(made(at, gpt2()), at / "a", to({2, 2, 1})));
  const auto pipeline = check_ok(read_deepspeed_source(newest_in(at / "a")));
  check_ok(rewritten(*pipeline, at / "b", to({1, 4, 1})));
  const auto file = check_ok(torch_archive::open(at / "b/global_step5/mp_rank_03_model_states.pt"));
  const auto& tree = file->tree();
  const auto module = *tree.find(file->root(), "module");
  const auto shape = [&](const std::string& name) { return file->tensor(*tree.find(module, name)).value().shape; };
  BOOST_TEST((shape("h.2.ln_1.weight") == std::vector<int64_t>{8}));
  BOOST_TEST((shape("h.2.attn.c_attn.weight") == std::vector<int64_t>{8, 6}));
  BOOST_TEST((shape("h.2.mlp.c_fc.bias") == std::vector<int64_t>{8}));
  BOOST_TEST((shape("h.2.mlp.c_proj.weight") == std::vector<int64_t>{8, 8}));
  BOOST_TEST((shape("wte.weight") == std::vector<int64_t>{4, 8}));
  BOOST_TEST((shape("wpe.weight") == std::vector<int64_t>{4, 8}));
}

BOOST_AUTO_TEST_CASE(tied_names_and_groups_follow_their_parameters) {
  const scratch_folder at;
  auto from = made(at, gpt2());
  from.tied.push_back({"lm_head.weight", "wte.weight"});
  auto o = to({2, 2, 1});
  o.write.groups = {{.weight_decay = 0.1, .parameters = {}}, {.parameters = {"ln_f.weight", "h.0.ln_1.weight"}}};
  check_ok(rewritten(from, at / "a", o));
  const auto cut = check_ok(read_deepspeed_source(newest_in(at / "a")));
  check_ok(rewritten(*cut, at / "b", to({1, 1, 1})));
  const auto back = check_ok(read_deepspeed_source(newest_in(at / "b")));
  check_same(contents_of(*back), contents_of(from), "tied");
  BOOST_TEST((back->tied == from.tied));
  const auto file = check_ok(torch_archive::open(at / "a/global_step5/zero_pp_rank_0_mp_rank_03_optim_states.pt"));
  const auto inner = file->tree().find(file->root(), "optimizer_state_dict");
  const auto masters = file->tree().find(*inner, "single_partition_of_fp32_groups");
  BOOST_TEST(file->tree().items(*masters).size() == 2U);  // ln_f is in a parameter group of its own on the last stage
}

BOOST_AUTO_TEST_CASE(layers_are_divided_over_stages) {
  const scratch_folder at;
  const auto map = check_ok(pipeline_map_of(made(at, megatron_pipeline())));
  using stages = std::map<uint32_t, uint32_t>;
  BOOST_TEST((stages_of(*map, 2).value() == stages{{1, 0}, {3, 0}, {4, 0}, {5, 1}, {6, 1}, {8, 1}}));
  BOOST_TEST((stages_of(*map, 3).value() == stages{{1, 0}, {3, 0}, {4, 0}, {5, 1}, {6, 2}, {8, 2}}));
  BOOST_TEST((stages_of(*map, 6).value() == stages{{1, 0}, {3, 1}, {4, 2}, {5, 3}, {6, 4}, {8, 5}}));
  check_failed(stages_of(*map, 7), core::error_kind::bad_input, "6 layers cannot be divided over 7 stages");
  // The partition may also count layers without tensors, as other programs do.
  BOOST_TEST((stages_of(*map, 2, {0, 6}).value() == stages{{1, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 1}, {8, 1}}));
  BOOST_TEST((stages_of(*map, 3, {0, 2, 8}).value() == stages{{1, 0}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {8, 2}}));
  const std::string wanted = "wanted the first layer of each of 2 stages, ascending from 0 on, got ";
  for (const auto& [partition, got] : std::vector<std::pair<std::vector<uint32_t>, std::string>>{
           {{0}, "0"},
           {{1, 4}, "1,4"},
           {{0, 0}, "0,0"},
           {{0, 3, 5}, "0,3,5"},
           {{0, 1}, "0,1, where stage 0 has no layer with tensors"},
           {{0, 9}, "0,9, where stage 1 has no layer with tensors"}})
    check_failed(stages_of(*map, 2, partition), core::error_kind::bad_input, wanted + got);
  const auto other = check_ok(pipeline_map_of(made(at, gpt2())));
  BOOST_TEST(pipeline_name(*other, "wpe.weight") == "0.wpe.weight");
  BOOST_TEST(pipeline_name(*other, "h.2.ln_1.weight") == "3.ln_1.weight");
  BOOST_TEST(pipeline_name(*other, "ln_f.weight") == "4.ln_f.weight");
}

BOOST_AUTO_TEST_CASE(an_averaged_parameter_whose_ranks_differ_is_their_mean) {
  const scratch_folder at;
  const auto from = made(at, {{"wte.weight", {13, 8}}, {"mean", {7}}, {"same", {3}}});
  reshape_options o = to({1, 2, 1}, 1);
  o.patterns.emplace();
  o.patterns->vocabulary = {"wte"};
  o.patterns->original_vocabulary = 13;
  o.patterns->averaged = {"mean", "same"};
  const fs::path root = at / "out";
  check_ok(rewritten(from, root, o));
  const auto before = contents_of(from);
  auto back = check_ok(read_deepspeed_source(newest_in(root)));
  check_same(contents_of(*back), before, "equal values");

  // The test gives the second rank other values: it replaces the bytes of the master weight in that rank's file, and
  // the CRC-32 of its entry in the archive's directory.
  const fs::path file = root / "global_step5/zero_pp_rank_0_mp_rank_01_optim_states.pt";
  std::string bytes = scratch_folder::read(file);
  const auto& old = before.at("mean/").second;
  const size_t place = bytes.find(std::string(reinterpret_cast<const char*>(old.data()), old.size()));
  BOOST_REQUIRE(place != std::string::npos);
  std::vector<float> first(7), second{0.1F, -3, 1e-30F, 7, 0, 1.0F / 3, 2};
  std::memcpy(first.data(), old.data(), old.size());
  std::memcpy(&bytes[place], second.data(), old.size());
  const auto list = check_ok(read_zip(std::as_bytes(std::span(bytes))));
  for (const auto& e : list->entries) {
    if (e.begin > place || place >= e.begin + e.bytes) continue;
    const std::string was(reinterpret_cast<const char*>(&e.crc32), sizeof e.crc32);
    const uint32_t sum = crc32(std::as_bytes(std::span(bytes)).subspan(e.begin, e.bytes));
    for (size_t i = bytes.find(was); i != std::string::npos; i = bytes.find(was, i + 1))
      std::memcpy(&bytes[i], &sum, sizeof sum);
  }
  std::ofstream(file, std::ios::binary) << bytes;
  back = read_deepspeed_source(newest_in(root));
  check_ok(back);
  auto wanted = before;
  for (size_t i = 0; i < 7; ++i) first[i] = (first[i] + second[i]) / 2;
  std::memcpy(wanted["mean/"].second.data(), first.data(), old.size());
  check_same(contents_of(*back), wanted, "their mean");
  // Another conversion keeps the mean.
  const auto again = check_ok(rewritten(*back, at / "again", to({1, 1, 2}, 2)));
  const auto whole = check_ok(read_deepspeed_source(newest_in(at / "again")));
  check_same(contents_of(*whole), wanted, "written again");
}

BOOST_AUTO_TEST_CASE(published_patterns_give_the_rules_that_they_came_from) {
  const std::vector<published_rule> all{
      {"wte.weight", {13, 8}, *hugging_face_rule("wte.weight", {13, 8})},
      {"c_attn", {8, 24}, *hugging_face_rule("h.0.attn.c_attn.weight", {8, 24})},
      {"ln", {8}, {}},
      {"mean", {8}, {.kind = cut_kind::averaged}},
      {"row", {8, 8}, *hugging_face_rule("layers.0.mlp.down_proj.weight", {8, 8})},
      {"uneven", {7, 2}, {.kind = cut_kind::along, .part_sizes = {4, 3}, .uneven = uneven_split::one_more_each}},
      {"widths", {7, 2}, {.kind = cut_kind::along, .widths = {{4, 0}, {1, 2}}}}};
  const auto info = check_ok(universal_info_json(all, 2));
  const auto j = nlohmann::json::parse(*info);
  BOOST_TEST(j.at("vocabulary_parameter_patterns").at(0) == R"(^wte\.weight$)");
  BOOST_TEST(j.at("original_vocab_size") == 13);
  BOOST_TEST(j.at("padded_vocab_size") == 14);
  BOOST_TEST(j.at("tp_replicated_parameter_patterns").at(0) == "^ln$");
  BOOST_TEST(j.at("parameter_to_average_patterns").at(0) == "^mean$");
  BOOST_TEST(j.at("parameter_with_row_parallelism_patterns").at(0) == "^row$");
  const auto widths = nlohmann::json::parse("[[2,2],[2,1]]");
  BOOST_TEST(j.at("sub_param_shard_widths").at("^uneven$") == widths);
  BOOST_TEST(j.at("sub_param_shard_widths").at("^widths$") == nlohmann::json::parse("[[4,0],[1,2]]"));
  BOOST_TEST(j.at("parameter_with_sub_params").at(2).at("shape") == nlohmann::json::parse("[[4,3],2]"));
  BOOST_TEST(j.at("sub_param_shard_widths").at("^c_attn$") == nlohmann::json::parse("[[4,4],[4,4],[4,4]]"));
  check_failed(universal_info_json({{"a", {3, 1}, *hugging_face_rule("wte.weight", {3, 1})},
                                    {"b", {4, 1}, *hugging_face_rule("wte.weight", {4, 1})}},
                                   2),
               core::error_kind::bad_input, "vocabularies of 3 and of 4 rows");
}

BOOST_AUTO_TEST_CASE(a_reshape_that_is_impossible_leaves_nothing) {
  const scratch_folder at, other;
  const auto from = made(at, megatron_pipeline());
  const auto unknown = made(other, {{"a", {4, 4}}, {"b", {4}}});
  const fs::path root = at / "out";
  const auto bad = core::error_kind::bad_input;
  check_failed(rewritten(from, root, to({1, 3, 1})), bad, "cannot be divided");
  check_failed(rewritten(from, root, to({7, 1, 1})), bad, "6 layers cannot be divided over 7 stages");
  check_failed(rewritten(from, root, to({0, 1, 1})), core::error_kind::limit, "0 stages");
  check_failed(rewritten(unknown, root, to({1, 2, 1})), bad, "no rule cuts any");
  check_failed(rewritten(unknown, root, to({2, 1, 1})), bad, "no numbered blocks");
  auto o = to({1, 2, 1});
  o.qkv_version = 3;
  check_failed(rewritten(from, root, o), bad, "wanted checkpoint version 0, 1.0 or 2.0");
  o.qkv_version = 0;
  o.to_qkv_version = 2;
  check_failed(rewritten(from, root, o), bad, "0 heads");
  o = to({1, 2, 1});
  o.write.tag = "a/b";
  check_failed(rewritten(from, root, o), bad, "cannot be the tag");
  BOOST_TEST(!fs::exists(root));
  check_ok(rewritten(from, root, to({1, 2, 1})));
  check_failed(rewritten(from, root, to({1, 2, 1})), bad, "already exists");
}

BOOST_AUTO_TEST_CASE(a_stopped_reshape_leaves_existing_files_alone) {
  const scratch_folder at;
  const auto from = made(at, gpt2());
  const fs::path root = at / "out";
  check_ok(rewritten(from, root, to({1, 1, 1})));
  const auto before = files_in(root);
  for (const int stop : {1, 3, 9}) {
    BOOST_TEST_INFO_SCOPE("stop " << stop);
    auto o = to({2, 4, 2});
    o.write.tag = "other";
    uint64_t last = 0, all = 0;
    int calls = 0;
    o.write.progress = [&](uint64_t done, uint64_t total) {
      BOOST_TEST(done >= last);
      BOOST_TEST(done <= total);
      last = done;
      all = total;
      return ++calls < stop;
    };
    check_failed(rewritten(from, root, o), core::error_kind::stopped, "stopped");
    BOOST_TEST(all > 0U);
    BOOST_TEST(files_in(root) == before);
  }
  std::string latest;
  std::ifstream(root / "latest") >> latest;
  BOOST_TEST(latest == "global_step5");
}

BOOST_AUTO_TEST_SUITE_END()
