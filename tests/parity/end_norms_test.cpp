// Checks that models with norms behind attention and MLP (Gemma 2, Gemma 3, OLMo 2), which read the sum of the products
// of tensor ranks, and with norms over the heads of all ranks (OLMo 2), train alike over tensor ranks: they come near
// the uncut model, and every ZeRO stage, schedule, recomputation and tier has the same bits.
#include <fmt/format.h>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(end_norms)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 3;

const std::string zero = "zero_optimization.";

std::string model_of(const std::string& family, const std::string& keys) {
  return fmt::format(
      "model: {{model_type: {}, num_hidden_layers: 3, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2, "
      "intermediate_size: 48, max_position_embeddings: 24, vocab_size: 96{}}}\n",
      family, keys);
}
const std::string gemma2 = model_of("gemma2",
                                    ", head_dim: 8, sliding_window: 6, query_pre_attn_scalar: 12, "
                                    "attn_logit_softcapping: 3, final_logit_softcapping: 2"),
                  gemma3 = model_of("gemma3_text",
                                    ", head_dim: 8, sliding_window: 6, sliding_window_pattern: 2, rope_theta: 1000, "
                                    "rope_local_base_freq: 100"),
                  olmo2 = model_of("olmo2", "");

settings ranks(int degree) { return {fmt::format("parallel.tensor={}", degree)}; }
settings stage(int n) { return {fmt::format("{}stage={}", zero, n)}; }
settings pipeline(const char* schedule) {
  return {"parallel.pipeline=2", std::string("pipeline.schedule=") + schedule};
}
const settings own_columns = {"parallel.sharded_norms=true"}, in_pieces = {"tensor_parallel.exchange_pieces=3"},
               overlapped = {"tensor_parallel.tp_overlap_comm=true"},
               recomputed = {"activation_checkpointing.enabled=true"};
const settings partitioned = recomputed + settings{"activation_checkpointing.partition_activations=true"},
               away = recomputed + settings{"cluster.offload_activations=cpu"},
               small = {zero + "stage3_max_reuse_distance=0", zero + "stage3_param_persistence_threshold=0"};
/// Settings that divide the MLPs and the vocabulary, and leave attention whole.
const settings mlp_alone = {
    "tensor_parallel.partition_config={layer_specs: ["
    "{patterns: ['.*(gate_proj|up_proj)\\.weight$'], partition_type: column}, "
    "{patterns: ['.*down_proj\\.weight$'], partition_type: row}, {patterns: ['.*embed_tokens\\.weight$']}]}"};

/// Compares runs of `model` with the settings of `cuts` with the run of the uncut model. Samples of 13 tokens give two
/// ranks unequal numbers of them if norms are divided.
void check_near_the_uncut(const std::string& model, const std::vector<settings>& cuts) {
  const small_job job(model);
  const settings common = {"gradient_accumulation_steps=2", "data_types.param_dtype=fp64",
                           "optimizer.params.eps=1.0e-5", "data.sequence_length=13"};
  const auto whole = train(job, common, steps, first_gradients::read);
  for (const settings& cut : cuts) BOOST_TEST_CONTEXT(model << text_of(cut)) {
      const auto got = train(job, common + cut, steps, first_gradients::read);
      check_near(got, whole, 1e-12);
      check_gradients(got, whole, 1e-12);
    }
}

/// Compares runs of `model` over two tensor ranks with the settings of `cuts` with that at stage 0.
void check_bits(const std::string& model, const settings& with, const std::vector<settings>& cuts) {
  const small_job job(model);
  const settings common =
      ranks(2) + with +
      settings{"gradient_accumulation_steps=3", "gradient_order=per_step", "tied_gradients=per_use", "parallel.data=2"};
  const auto reference = train(job, common + stage(0), steps);
  BOOST_TEST(reference.losses.front() != reference.losses.back());
  for (const settings& cut : cuts) BOOST_TEST_CONTEXT(model << text_of(common + cut)) {
      check_same(train(job, common + cut, steps), reference);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_that_share_both_halves_of_blocks_train_the_uncut_model) {
  for (const std::string& model : {gemma2, gemma3})
    check_near_the_uncut(
        model, {ranks(2), ranks(3), ranks(2) + own_columns, ranks(3) + own_columns, ranks(2) + in_pieces,
                ranks(2) + settings{"parallel.sequence=2"}, ranks(2) + in_pieces + settings{"parallel.context=2"}});
}

// The norms of OLMo 2's queries and keys are formed over the heads of all ranks. Two key-value heads leave one of three
// ranks without a head.
BOOST_AUTO_TEST_CASE(ranks_that_share_norms_over_all_heads_train_the_uncut_model) {
  check_near_the_uncut(olmo2, {ranks(2), ranks(3), ranks(2) + in_pieces});
  check_near_the_uncut(model_of("olmo2", ", attention_bias: true, rms_norm_eps: 0.01"), {ranks(2), ranks(3)});
}

BOOST_AUTO_TEST_CASE(ranks_that_share_mlps_alone_train_the_uncut_model) {
  for (const std::string& model : {gemma2, olmo2})
    check_near_the_uncut(model, {ranks(2) + mlp_alone, ranks(2) + mlp_alone + in_pieces,
                                 ranks(2) + mlp_alone + settings{"parallel.context=2"}});
}

BOOST_AUTO_TEST_CASE(every_zero_stage_schedule_and_recompute_has_the_same_bits) {
  const std::vector<settings> cuts = {stage(3) + pipeline("zb_h1") + small, stage(1) + pipeline("1f1b") + recomputed,
                                      stage(2) + overlapped, stage(3) + away, stage(3) + pipeline("dual_pipe_v")};
  check_bits(gemma2, {}, cuts);
  check_bits(gemma3, {"bf16.enabled=true"}, cuts);
  check_bits(olmo2, {}, cuts);
  check_bits(olmo2, {"bf16.enabled=true"}, cuts);
  check_bits(olmo2, in_pieces, {stage(3) + pipeline("zb_h1") + overlapped, stage(1) + away});
  check_bits(olmo2, mlp_alone, {stage(3) + pipeline("zb_h1") + overlapped, stage(2) + recomputed});
}

BOOST_AUTO_TEST_CASE(sums_that_come_in_pieces_have_the_same_bits) {
  check_bits(gemma2, in_pieces + settings{"bf16.enabled=true"},
             {stage(3) + pipeline("zb_h1"), stage(1) + away, stage(2) + pipeline("1f1b") + overlapped});
}

BOOST_AUTO_TEST_CASE(norms_of_each_ranks_own_tokens_have_the_same_bits) {
  check_bits(gemma3, own_columns,
             {stage(3) + pipeline("1f1b") + partitioned, stage(1) + overlapped, stage(2) + recomputed,
              stage(3) + pipeline("zb_h1")});
}

BOOST_AUTO_TEST_CASE(evaluations_and_texts_are_those_of_the_uncut_model) {
  for (const std::string& model : {gemma2, olmo2}) {
    const small_job job(model);
    const settings common = {"data.validation_fraction=0.1", "data_types.param_dtype=fp64"};
    const auto whole = job.open(common);
    const auto a = whole->evaluate({.batches = 3});
    const auto said = whole->generate({1, 2, 3}, 8, 0);
    BOOST_TEST_REQUIRE((a && said));
    for (const settings& cut : {in_pieces + pipeline("1f1b") + stage(3), model == olmo2 ? stage(1) : own_columns})
      BOOST_TEST_CONTEXT(model << text_of(cut)) {
        const auto s = job.open(common + ranks(2) + cut);
        const auto b = s->evaluate({.batches = 3});
        const auto again = s->generate({1, 2, 3}, 8, 0);
        BOOST_TEST_REQUIRE((b && again));
        BOOST_TEST(b->loss == a->loss, boost::test_tools::tolerance(1e-12));
        BOOST_TEST(*again == *said, boost::test_tools::per_element());
      }
  }
}

BOOST_AUTO_TEST_SUITE_END()
