// Tests the meaning of DeepSpeed's partition_config and presets for a known model type: which halves of blocks are cut,
// and refusals with their line.
#include "job/tensor/partition.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "config/load.hpp"
#include "job/model/configured_model.hpp"
#include "job/tensor/tensor.hpp"
#include "models/table/model_spec.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(partition)

using namespace troupe;
using troupe::tests::check_failed;
using troupe::tests::check_ok;

namespace {

const std::string gpt2 =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96}\n";
const std::string llama =
    "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 48, num_attention_heads: 6, num_key_value_heads: 3, "
    "intermediate_size: 50, max_position_embeddings: 24, vocab_size: 96, tie_word_embeddings: false}\n";
const std::string rest =
    "data: {text: corpus.txt, sequence_length: 16}\n"
    "seed: 7\n"
    "steps: 10\n"
    "train_micro_batch_size_per_gpu: 2\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-2}}\n";

/// The specs that describe the same cut as Troupe's own for GPT-2.
const std::string columns = R"({patterns: ['.*c_attn\.weight$', '.*c_fc\.weight$'], partition_type: column})";
const std::string rows = R"({patterns: ['.*c_proj\.weight$'], partition_type: ROW})";

std::string specs(const std::string& list, const std::string& more = "") {
  return "tensor_parallel:\n  partition_config:\n    layer_specs: [" + list + "]\n" + more;
}

core::result<job::named_split> split_of(const std::string& model, const std::string& section, int degree = 2) {
  config::load_options options;
  options.overrides = {fmt::format("parallel.tensor={}", degree)};
  const auto loaded = config::load_text(model + rest + section, "job.yaml", "/base", options);
  if (!loaded) return core::fail(core::error_kind::bad_input, config::render(loaded.error()));
  const auto spec = check_ok(models::parse_model_spec(loaded->config.model.hugging_face_json));
  return job::choose_split(loaded->config, *spec, models::make_model_table(*spec, 1, 16, 4), 16);
}

void check_refused(const std::string& model, const std::string& section, const std::string& text, int degree = 2) {
  check_failed(split_of(model, section, degree), core::error_kind::bad_input, text);
}

bool is_cut(const models::tensor_split& s, uint32_t block, bool attention, bool mlp) {
  return s.of(block) == models::block_split{attention, mlp};
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_keys_a_family_is_cut_as_it_has_it) {
  const auto split = check_ok(split_of(gpt2, ""));
  BOOST_TEST((split->split == models::tensor_split{.degree = 2}));
  for (const auto origin : split->origins) BOOST_TEST((origin == job::cut_origin::family));
}

BOOST_AUTO_TEST_CASE(specs_that_are_the_familys_plan_cut_all_blocks) {
  const std::string vocabulary = R"({patterns: ['.*wte\.weight$']})";
  const auto split = check_ok(split_of(gpt2, specs(columns + ", " + rows + ", " + vocabulary)));
  for (const uint32_t b : {0U, 1U}) BOOST_TEST_CONTEXT("b " << b) BOOST_TEST(is_cut(split->split, b, true, true));
  BOOST_TEST(split->split.vocabulary);
  for (const auto origin : split->origins) BOOST_TEST((origin == job::cut_origin::config));
}

BOOST_AUTO_TEST_CASE(the_first_spec_that_matches_counts_and_what_none_matches_is_whole) {
  const std::string skipped = R"({patterns: ['transformer\.h\.0\.mlp\.', '.*h\.1\.attn\.'], partition_type: skip})";
  const auto split = check_ok(split_of(gpt2, specs(skipped + ", " + columns + ", " + rows)));
  BOOST_TEST(is_cut(split->split, 0, true, false));
  BOOST_TEST(is_cut(split->split, 1, false, true));
  BOOST_TEST(!split->split.vocabulary);
}

BOOST_AUTO_TEST_CASE(vocab_parallel_lm_head_cuts_the_vocabulary_or_leaves_it_whole) {
  for (const bool cut : {true, false}) {
    BOOST_TEST_INFO_SCOPE("cut " << cut);
    const std::string key = std::string("  vocab_parallel_lm_head: ") + (cut ? "true\n" : "false\n");
    for (const auto& section : {"tensor_parallel:\n" + key, specs(columns + ", " + rows, key),
                                specs(columns + ", " + rows + R"(, {patterns: ['.*wte\.weight$']})", key)}) {
      BOOST_TEST_INFO_SCOPE(section);
      const auto split = check_ok(split_of(gpt2, section));
      BOOST_TEST(split->split.vocabulary == cut, section);
      BOOST_TEST(is_cut(split->split, 0, true, true));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_preset_follows_own_specs_unless_they_stand_alone) {
  const std::string skipped = R"({patterns: ['.*layers\.0\.'], partition_type: skip})";
  const auto alone = check_ok(split_of(llama, "tensor_parallel: {preset_model: llama}\n"));
  BOOST_TEST(is_cut(alone->split, 0, true, true));
  BOOST_TEST((alone->origins.back() == job::cut_origin::preset));
  const auto both = check_ok(split_of(llama, specs(skipped, "  preset_model: qwen2\n")));
  BOOST_TEST(is_cut(both->split, 0, false, false));
  BOOST_TEST(is_cut(both->split, 1, true, true));
  const auto attention = check_ok(split_of(llama, "tensor_parallel: {preset_model: mixtral}\n"));
  BOOST_TEST(is_cut(attention->split, 1, true, false));
  check_refused(llama, specs(skipped, "    use_default_specs: false\n  preset_model: qwen2\n"),
                "tensor_parallel.partition_config: wanted a spec that cuts a layer of the model, such as "
                "model.layers.0.self_attn.q_proj.weight, found none");
  check_refused(gpt2, "tensor_parallel: {preset_model: llama}\n",
                "tensor_parallel.preset_model: wanted a spec that cuts a layer");
  check_refused(llama, "tensor_parallel: {preset_model: phi3}\n",
                "tensor_parallel.preset_model: wanted all layers of 'attention' of block 0 cut, or none, got "
                "model.layers.0.self_attn.o_proj.weight cut");
}

BOOST_AUTO_TEST_CASE(specs_of_other_models_do_not_count) {
  const std::string other = R"({patterns: ['.*'], partition_type: skip, model_types: [llama]})";
  const auto split = check_ok(split_of(gpt2, specs(other + ", " + columns + ", " + rows)));
  BOOST_TEST(is_cut(split->split, 0, true, true));
}

BOOST_AUTO_TEST_CASE(packed_widths_are_the_models) {
  const std::string fc = R"({patterns: ['.*c_fc\.weight$']})";
  const auto with = [&](const std::string& shape) {
    return specs(R"({patterns: ['.*c_attn\.weight$'], shape: )" + shape + "}, " + fc + ", " + rows);
  };
  for (const char* shape : {"[3, -1]", "[[32, 32, 32], -1]", "[3, 32]"})
    BOOST_TEST(split_of(gpt2, with(shape)).has_value(), shape);
  check_refused(gpt2, with("[[32, 32, 16], -1]"),
                "job.yaml:9: tensor_parallel.partition_config: shape: wanted [[32, 32, 32], 32] for "
                "transformer.h.0.attn.c_attn.weight, its outputs side by side and its inputs, got blocks that do not "
                "sum to its 96 outputs");
  check_refused(gpt2, with("[2, -1]"), "got [[48, 48], -1]");
  check_refused(gpt2, with("[3, 31]"), "got [[32, 32, 32], 31]");
}

BOOST_AUTO_TEST_CASE(what_no_rank_could_compute_is_refused_at_its_line) {
  check_refused(
      gpt2, specs(columns),
      "job.yaml:9: tensor_parallel.partition_config: wanted all layers of 'attention' of block 0 cut, or none, "
      "got transformer.h.0.attn.c_attn.weight cut and whole transformer.h.0.attn.c_proj.weight, which has no "
      "spec");
  check_refused(gpt2, specs("{patterns: ['.*c_'], partition_type: column}"),
                "wanted row for transformer.h.0.attn.c_proj.weight, as its family computes it, or skip, got column");
  check_refused(gpt2, specs("{patterns: ['.*c_attn'], gather_output: true}, " + rows), "gather_output: wanted false");
  check_refused(gpt2, specs("{patterns: ['.*c_attn'], partition_dim: 1}, " + rows), "partition_dim: wanted 0");
  check_refused(gpt2, specs("{patterns: ['.*wte'], partition_type: row}"), "wanted column, along dimension 0");
  check_refused(gpt2,
                specs(columns + ", {patterns: ['.*h.0.*c_proj'], partition_type: row}", "    strict_mode: true\n"),
                "job.yaml:10: tensor_parallel.partition_config: strict_mode: wanted a spec for "
                "transformer.h.1.attn.c_proj.weight, found none");
  check_refused(gpt2, specs(columns + ", " + rows), "parallel.tensor: wanted at most 4 ranks", 5);
}

BOOST_AUTO_TEST_CASE(a_refusal_names_one_key_the_one_that_has_to_change) {
  const std::string gpt_neox =
      "model: {model_type: gpt_neox, num_hidden_layers: 2, hidden_size: 32, num_attention_heads: 4, "
      "intermediate_size: 64, max_position_embeddings: 24, vocab_size: 96}\n";
  const auto split = split_of(gpt_neox, "parallel: {sharded_norms: true}\n");
  BOOST_TEST_REQUIRE(!split.has_value());
  BOOST_TEST(
      split.error().text ==
      "parallel.sharded_norms: wanted false for a model whose attention and MLP are computed together, got true");
  const core::error whole{core::error_kind::bad_input, "wanted at most 4 ranks"};
  BOOST_TEST(whole.at_key("parallel.tensor").text == "parallel.tensor: wanted at most 4 ranks");
  for (const char* own : {"data.sources[0].text: wanted a path", "parallel.sequence: wanted 1"})
    BOOST_TEST((core::error{core::error_kind::bad_input, own}.at_key("parallel.tensor").text == own));
  for (const char* other : {"rank 1: wanted 2", "wanted 2.5: got 1", "'a.b': wanted 1"})
    BOOST_TEST((core::error{core::error_kind::bad_input, other}.at_key("x.y").text == "x.y: " + std::string(other)));
}

BOOST_AUTO_TEST_CASE(a_section_of_another_form_is_refused_at_its_line) {
  check_refused(gpt2, specs("3"), "layer_specs[0]: wanted a mapping, got 3");
  check_refused(gpt2, specs("{partition_type: row}"), "layer_specs[0]: wanted patterns of parameters' names, got none");
  check_refused(gpt2, specs("{patterns: ['(']}"), "layer_specs[0].patterns: wanted an RE2 pattern, got '('");
  check_refused(gpt2, specs("{patterns: [a], partition_type: colwise}"),
                "layer_specs[0].partition_type: wanted column, row or skip, got colwise");
  check_refused(gpt2, specs("{patterns: [a], shape: [0, -1]}"), "layer_specs[0].shape: wanted a size, or -1, got 0");
  check_refused(gpt2, specs("{patterns: [a], shape: [[3, -1], -1]}"),
                "layer_specs[0].shape: wanted an integer of at least 1");
  check_refused(gpt2, specs("{pattern: [a]}"), "layer_specs[0].pattern: unknown key");
  check_refused(gpt2, specs(columns, "    strict: true\n"), "tensor_parallel.partition_config.strict: unknown key");
}

BOOST_AUTO_TEST_CASE(grains_stay_together_in_an_inner_width) {
  const auto split = check_ok(split_of(llama, "tensor_parallel: {tp: {tp_grain_size: 16}}\n"));
  const auto spec = split->split;
  BOOST_TEST(spec.grain == 16U);
}

BOOST_AUTO_TEST_SUITE_END()
