// Checks sums over tensor ranks that are exchanged in pieces of rows: losses, gradient norms and weights equal those of
// undivided sums up to rounding, and are bit-identical over all cuts with the same number of pieces.
#include <fmt/format.h>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(exchange_pieces)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 3;

const std::string zero = "zero_optimization.";
const std::string grouped_llama =
    "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 48, num_attention_heads: 6, num_key_value_heads: 3, "
    "intermediate_size: 50, max_position_embeddings: 24, vocab_size: 96}\n";

settings pieces(int n) { return {fmt::format("tensor_parallel.exchange_pieces={}", n)}; }
settings ranks(int degree) { return {fmt::format("parallel.tensor={}", degree)}; }
settings stage(int n) { return {fmt::format("{}stage={}", zero, n)}; }
settings pipeline(const char* schedule) {
  return {"parallel.pipeline=2", std::string("pipeline.schedule=") + schedule};
}

const settings recomputed = {"activation_checkpointing.enabled=true"};

}  // namespace

BOOST_AUTO_TEST_CASE(losses_and_weights_are_those_of_sums_at_once) {
  for (const std::string& model : {tiny_gpt2, tiny_gpt2_with_dropout, grouped_llama}) {
    const small_job job(model);
    for (const auto& [type, most] : {std::pair{"fp64", 1e-12}, std::pair{"fp32", 1e-5}}) {
      const settings common = {std::string("data_types.param_dtype=") + type, "optimizer.params.eps=1.0e-5",
                               "gradient_accumulation_steps=2"};
      for (const int degree : {2, 3}) {
        const auto whole = train(job, common + ranks(degree), steps, first_gradients::read);
        for (const int n : {2, 5}) BOOST_TEST_CONTEXT(model << type << ", tensor " << degree << ", pieces " << n) {
            const auto cut = train(job, common + ranks(degree) + pieces(n), steps, first_gradients::read);
            check_near(cut, whole, most);
            check_gradients(cut, whole, most);
          }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_zero_stage_pipeline_and_recompute_has_the_same_bits) {
  for (const auto& [model, type] :
       {std::pair{tiny_gpt2_with_dropout, "bf16.enabled=false"}, std::pair{grouped_llama, "bf16.enabled=true"}}) {
    const small_job job(model);
    const auto common = ranks(2) + pieces(3) +
                        settings{"gradient_accumulation_steps=4", "gradient_order=per_step", "tied_gradients=per_use",
                                 "parallel.data=2", type};
    const auto reference = train(job, common + stage(0), steps);
    const settings beside = {"tensor_parallel.tp_overlap_comm=true"};
    const settings small = {zero + "stage3_max_reuse_distance=0", zero + "stage3_param_persistence_threshold=0"};
    for (const auto& cut :
         {stage(1), stage(2) + beside, stage(3) + small, stage(3) + pipeline("zb_h1"), stage(1) + pipeline("1f1b"),
          stage(3) + pipeline("dual_pipe_v") + small, stage(0) + pipeline("dual_pipe_v") + beside,
          stage(2) + recomputed, stage(3) + recomputed + pipeline("1f1b") + small,
          stage(1) + recomputed + settings{"cluster.offload_activations=cpu"},
          stage(0) + recomputed + pipeline("zb_h1") + settings{"cluster.offload_activations=cpu"}})
      BOOST_TEST_CONTEXT(text_of(cut)) { check_same(train(job, common + cut, steps), reference); }
  }
}

BOOST_AUTO_TEST_CASE(ranks_of_a_sequence_may_have_fewer_rows_than_pieces_are_made_of) {
  const small_job job(tiny_gpt2_with_dropout);
  for (const char* axis : {"sequence", "context"}) BOOST_TEST_CONTEXT(axis) {
      const auto common = ranks(2) + settings{std::string("parallel.") + axis + "=2", "data.sequence_length=13"};
      const auto cut = train(job, common + pieces(4) + stage(0), steps);
      check_near(cut, train(job, common, steps), 1e-5);
      check_same(train(job, common + pieces(4) + stage(3), steps), cut);
    }
}

BOOST_AUTO_TEST_CASE(evaluations_and_generated_text_are_those_of_sums_at_once) {
  const small_job job(tiny_gpt2);
  const settings common = ranks(2) + settings{"data.validation_fraction=0.1"};
  const auto whole = job.open(common), cut = job.open(common + pieces(3)),
             piped = job.open(common + pieces(3) + stage(3) + pipeline("1f1b"));
  const auto a = whole->evaluate({.batches = 3}), b = cut->evaluate({.batches = 3}),
             c = piped->evaluate({.batches = 3});
  BOOST_TEST_REQUIRE((a && b && c));
  BOOST_TEST(a->loss == b->loss, boost::test_tools::tolerance(1e-5));
  BOOST_TEST(b->loss == c->loss);
  const auto said = whole->generate({1, 2, 3}, 12, 0), again = cut->generate({1, 2, 3}, 12, 0);
  BOOST_TEST_REQUIRE((said && again));
  BOOST_TEST(*said == *again, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_pass_that_splits_exchanges_is_in_no_automatic_choice_and_acts_by_name) {
  const small_job job(tiny_gpt2);
  const auto common = ranks(2);
  const settings named = {"compile.deepcompile=true", "compile.schedule=[{step: 0, passes: [split_exchanges]}]"};
  const auto chosen = job.open(common + named);
  const uint32_t n = chosen->training_plan(0).options().exchange_pieces;
  check_same(result_of(*chosen, steps), train(job, common + pieces(static_cast<int>(n)), steps));
  const auto automatic = job.open(common + settings{"compile=auto"});
  BOOST_TEST(automatic->training_plan(0).options().exchange_pieces == 1U);
}

BOOST_AUTO_TEST_CASE(what_has_no_pieces_is_refused_by_name) {
  const small_job job(tiny_gpt2);
  const auto refused = [&](const settings& set) -> std::string {
    try {
      const auto s = job.try_open(set);
      return s ? "" : s.error().text;
    } catch (const std::runtime_error& of_the_file) {
      return of_the_file.what();
    }
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  BOOST_TEST(has(refused(pieces(2)), "wanted 1 without parallel.tensor above 1, got 2"));
  BOOST_TEST(has(refused(ranks(2) + pieces(2) + settings{"parallel.sharded_norms=true"}),
                 "wanted 1 with parallel.sharded_norms, which scatters these sums, got 2"));
  BOOST_TEST(has(refused(ranks(2) + pieces(64) + settings{"data.sequence_length=4"}), "rows of a micro-batch, got 64"));
  const settings vocabulary = {"tensor_parallel.partition_config={layer_specs: [{patterns: ['.*wte\\.weight$']}]}"};
  BOOST_TEST(has(refused(ranks(2) + pieces(2) + vocabulary),
                 "wanted 1, because the model has no row-parallel layer of a Troupe family"));
  BOOST_TEST(has(refused(ranks(2) + pieces(65)), "tensor_parallel.exchange_pieces"));
}

BOOST_AUTO_TEST_SUITE_END()
