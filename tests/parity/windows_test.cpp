// Checks runs of a model whose tokens attend to a window that is shorter than the sequence: ranks that divide tokens or
// heads train the undivided model, and sharding, recomputation and pipelines change no bit.
#include <fmt/format.h>

#include "tests/parity/document_lines.hpp"
#include "tests/parity/many_rows.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(windows)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 3;

/// A model with a window of five tokens in all blocks but the first, shared key-value heads, and dropout of attention
/// weights.
const std::string windowed =
    "model: {model_type: qwen2, num_hidden_layers: 4, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2, "
    "intermediate_size: 64, max_position_embeddings: 256, vocab_size: 96, attention_dropout: 0.1, "
    "use_sliding_window: true, sliding_window: 5, max_window_layers: 1}\n";

settings type_of(const std::string& type) { return {"data_types.param_dtype=" + type, "optimizer.params.eps=1.0e-5"}; }

settings documents(const small_job& job) {
  job.folder().write("lines.jsonl", document_lines());
  return {"data.text=" + (job.folder() / "lines.jsonl").string(), "data.document_mask=true"};
}

/// Compares the runs of ranks that divide the tokens or the heads of a sample with the undivided run.
void check_cuts(const small_job& job, const settings& common, double most) {
  const auto whole = train(job, common, steps, first_gradients::read);
  for (const settings& ranks :
       {settings{"parallel.context=2"}, settings{"parallel.context=4"}, settings{"parallel.sequence=2"},
        settings{"parallel.tensor=2"}, settings{"parallel.tensor=2", "parallel.sharded_norms=true"},
        settings{"parallel.context=2", "parallel.tensor=2"}})
    BOOST_TEST_CONTEXT(text_of(common + ranks)) {
      const auto cut = train(job, common + ranks, steps, first_gradients::read);
      check_near(cut, whole, most);
      check_gradients(cut, whole, most);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_window_changes_the_run_if_it_is_shorter_than_the_sequence) {
  const small_job job(windowed);
  const auto none = train(job, {"model.use_sliding_window=false"}, 1);
  check_same(train(job, {"model.sliding_window=16"}, 1), none);
  BOOST_TEST(train(job, {}, 1).losses[0] != none.losses[0]);
  BOOST_TEST(train(job, {}, 1).losses[0] != train(job, {"model.max_window_layers=0"}, 1).losses[0]);
}

BOOST_AUTO_TEST_CASE(ranks_that_divide_tokens_or_heads_train_the_undivided_model) {
  const small_job job(windowed);
  // Gradients of the biases of keys are small sums of large terms.
  for (const auto& [type, most] : {std::pair{"fp64", 1e-12}, std::pair{"fp32", 2e-5}}) {
    check_cuts(job, type_of(type), most);
    check_cuts(job, type_of(type) + documents(job), most);
  }
}

// A context rank has tokens [0, 64) and [192, 256) of each sample, the other the tokens between.
BOOST_AUTO_TEST_CASE(context_ranks_train_long_sequences_with_and_without_a_window) {
  const small_job job(windowed);
  for (const int window : {40, 256}) {
    const auto common =
        type_of("fp32") + settings{"data.sequence_length=256", fmt::format("model.sliding_window={}", window)};
    const auto whole = train(job, common, 1, first_gradients::read);
    const auto cut = train(job, common + settings{"parallel.context=2"}, 1, first_gradients::read);
    check_near(cut, whole, 1e-5);
    check_gradients(cut, whole, 2e-5);
  }
}

BOOST_AUTO_TEST_CASE(stages_recomputation_and_pipelines_have_the_same_bits) {
  const small_job job(windowed);
  const std::string zero = "zero_optimization.";
  const settings recomputed = {"activation_checkpointing.enabled=true"};
  for (const std::string type : {"bf16.enabled=false", "bf16.enabled=true"}) {
    const auto common =
        documents(job) + settings{type, "parallel.data=2", "gradient_order=per_step", "gradient_accumulation_steps=2"};
    const auto reference = train(job, common + settings{zero + "stage=0"}, steps);
    for (const settings& each :
         {settings{zero + "stage=3"}, settings{zero + "stage=3"} + recomputed,
          settings{zero + "stage=2"} + recomputed + settings{"activation_checkpointing.selective=true"},
          settings{zero + "stage=3", "parallel.pipeline=2", "pipeline.schedule=zb_h1"},
          settings{zero + "stage=1", "parallel.pipeline=2", "pipeline.schedule=1f1b"} + recomputed})
      BOOST_TEST_CONTEXT(text_of(common + each)) { check_same(train(job, common + each, steps), reference); }
  }
}

BOOST_AUTO_TEST_CASE(row_tiles_have_the_same_bits) {
  const small_job job = job_of_many_rows(
      "model: {model_type: mistral, num_hidden_layers: 2, hidden_size: 16, num_attention_heads: 2, "
      "num_key_value_heads: 1, intermediate_size: 24, max_position_embeddings: 16, vocab_size: 96, "
      "sliding_window: 5}\n");
  for (const settings& ranks : {settings{}, settings{"parallel.context=2"}})
    check_same(train(job, many_rows + ranks + tiles_of_one_panel, 1), train(job, many_rows + ranks, 1));
}

BOOST_AUTO_TEST_CASE(an_evaluation_and_a_sample_are_the_undivided_models) {
  const small_job job(windowed);
  const settings common = {"data.validation_fraction=0.1", "data_types.param_dtype=fp64"};
  const auto whole = job.open(common), cut = job.open(common + settings{"parallel.context=2", "parallel.pipeline=2"});
  step_of(*whole);
  step_of(*cut);
  const auto a = whole->evaluate(actors::evaluation_request{.batches = 2});
  const auto b = cut->evaluate(actors::evaluation_request{.batches = 2});
  BOOST_TEST_REQUIRE((a && b));
  BOOST_TEST(b->loss == a->loss, boost::test_tools::tolerance(1e-12));
  const std::vector<int64_t> prompt{1, 2, 3, 4, 5, 6, 7, 8};
  const auto said = whole->generate(prompt, 12, 0), again = cut->generate(prompt, 12, 0);
  BOOST_TEST_REQUIRE((said && again));
  BOOST_TEST(*said == *again, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
