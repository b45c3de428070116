// Trains with label smoothing and z-loss: all cuts have the loss, the gradients and the bits of the uncut model, and an
// evaluation has neither term.
#include <fmt/format.h>

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

BOOST_AUTO_TEST_SUITE_END()
