// Trains with label smoothing and z-loss, and with a soft cap of logits: all cuts have the loss, the gradients and the
// bits of the uncut model. An evaluation has neither term, and the cap.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "tests/check_ok.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(loss_terms)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 3;
const settings terms = {"loss.label_smoothing=0.1", "loss.z_loss=0.01", "gradient_accumulation_steps=2",
                        "optimizer.params.eps=1.0e-5"};

settings stage(int n) { return {fmt::format("zero_optimization.stage={}", n)}; }

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_that_share_samples_or_the_vocabulary_train_the_uncut_model) {
  const small_job job(tiny_llama);
  const settings common = terms + settings{"data_types.param_dtype=fp64"};
  const auto whole = train(job, common, steps, first_gradients::read);
  for (const std::string cut : {"tensor=2", "tensor=3", "sequence=2", "context=2"})
    BOOST_TEST_CONTEXT(cut) {
      const auto got = train(job, common + settings{"parallel." + cut}, steps, first_gradients::read);
      check_near(got, whole, 1e-12);
      check_gradients(got, whole, 1e-12);
    }
}

BOOST_AUTO_TEST_CASE(stages_pipelines_recomputation_and_row_tiles_leave_the_bits) {
  const small_job job(tiny_gpt2_with_dropout);
  const settings common =
      terms + settings{"parallel.data=2", "gradient_order=per_step", "tied_gradients=per_use"};
  const auto reference = train(job, common + stage(0), steps);
  for (const auto& cut : {stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"},
                          stage(2) + settings{"cluster.row_tile_bytes=4096"},
                          stage(3) + settings{"activation_checkpointing.enabled=true"}})
    BOOST_TEST_CONTEXT(text_of(cut)) check_same(train(job, common + cut, steps), reference);
}

BOOST_AUTO_TEST_CASE(an_evaluation_has_the_cross_entropy_alone) {
  const small_job job;
  const settings common = {"data.validation_fraction=0.5", "gradient_accumulation_steps=2"};
  for (const std::string more : {"parallel.tensor=1", "parallel.tensor=2", "cluster.row_tile_bytes=4096"})
    BOOST_TEST_CONTEXT(more) {
      const auto with = job.open(common + terms + settings{more}), without = job.open(common + settings{more});
      BOOST_TEST(with->evaluate(2).value() == without->evaluate(2).value());
      BOOST_TEST(step_of(*with).loss > step_of(*without).loss);
    }
}

BOOST_AUTO_TEST_CASE(a_cap_of_logits_is_a_part_of_the_model_in_every_cut) {
  const small_job job(tiny_llama);
  const settings capped = {"loss.logit_soft_cap=0.5", "data.validation_fraction=0.5", "gradient_accumulation_steps=2"};
  const auto losses = [&](const settings& set) {
    const auto s = job.open(set);
    const double before = s->evaluate(2).value();
    return std::pair(before, step_of(*s).loss);
  };
  const settings two = {"parallel.data=2", "gradient_order=per_step", "tied_gradients=per_use"};
  const auto reference = train(job, capped + two + stage(0), steps);
  for (const auto& cut : {stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"},
                          stage(2) + settings{"cluster.row_tile_bytes=4096"},
                          stage(3) + settings{"activation_checkpointing.enabled=true"}})
    BOOST_TEST_CONTEXT(text_of(cut)) check_same(train(job, capped + two + cut, steps), reference);
  const settings exact = {"data_types.param_dtype=fp64"};
  const auto uncut = train(job, capped + exact, steps);
  check_near(train(job, capped + exact + settings{"parallel.tensor=2"}, steps), uncut, 1e-12);
  // Logits near 0 leave every token as likely as any other; a cap far above them changes them by rounding alone.
  const double even = std::log(96);
  const auto flat = losses(capped + settings{"loss.logit_soft_cap=1.0e-3"});
  BOOST_TEST((std::abs(flat.first - even) < 2e-3 && std::abs(flat.second - even) < 2e-3));
  const auto high = losses(capped + settings{"loss.logit_soft_cap=1.0e5"});
  const auto none = losses(capped + settings{"loss.logit_soft_cap=0"});
  BOOST_TEST((std::abs(high.first - none.first) < 1e-5 && std::abs(high.second - none.second) < 1e-5));
}

BOOST_AUTO_TEST_CASE(a_family_with_a_cap_of_its_own_takes_no_other) {
  const small_job job(
      "model: {model_type: gemma2, num_hidden_layers: 2, hidden_size: 32, num_attention_heads: 4, "
      "num_key_value_heads: 2, head_dim: 8, intermediate_size: 64, max_position_embeddings: 24, vocab_size: 96}\n");
  check_failed(job.try_open({"loss.logit_soft_cap=5"}), core::error_kind::bad_input,
               "loss.logit_soft_cap: a gemma2 model has final_logit_softcapping in its config.json");
}

BOOST_AUTO_TEST_SUITE_END()
