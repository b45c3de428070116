// Updates before the vote give the bits of updates that wait for it, also if steps are skipped and undone in the middle
// of a run, and however the model is cut.
#include "tests/parity/run_result.hpp"

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 12;

settings base(int ranks, int stage, int accumulation) {
  return {"parallel.data=" + std::to_string(ranks),
          "zero_optimization.stage=" + std::to_string(stage),
          "gradient_accumulation_steps=" + std::to_string(accumulation),
          "zero_optimization.offload_optimizer.device=cpu",
          "zero_optimization.reduce_bucket_size=8192",
          "zero_optimization.sub_group_size=4096",
          "zero_optimization.stage3_param_persistence_threshold=100",
          "gradient_clipping=0"};
}
const settings ahead = {"zero_optimization.offload_optimizer.super_offload=true"};
// The loss scale doubles every second good step until it overflows, then halves: several steps in twelve are skipped.
const settings restless_fp16 = {"fp16.enabled=true", "fp16.initial_scale_power=24", "fp16.loss_scale_window=2",
                                "fp16.hysteresis=1"};

uint64_t speculated(const actors::session& s) {
  uint64_t n = 0;
  for (const auto& x : s.training_plan(0).instructions)
    n += x.kind == plan::kind::update && x.guard == plan::guard::always ? 1 : 0;
  return n;
}

/// Runs both orders; returns how many steps were skipped.
uint64_t check_alike(const settings& set) {
  const small_job job(tiny_gpt2);
  const auto wanted = train(job, set, steps);
  auto s = job.open(set + ahead);
  BOOST_TEST(speculated(*s) >= 4U);
  const auto got = result_of(*s, steps);
  check_same(got, wanted);
  BOOST_TEST(got.skipped == wanted.skipped);
  BOOST_TEST(got.losses.front() != got.losses.back());
  BOOST_TEST((got.memory.undo > 0U) == s->training_plan(0).options().updates.may_skip);  // else nothing is ever undone
  BOOST_TEST(wanted.memory.undo == 0U);
  return got.skipped;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(speculation)

BOOST_AUTO_TEST_CASE(steps_that_overflow_are_undone_bit_for_bit) {
  for (const int accumulation : {1, 2}) {
    const uint64_t skipped = check_alike(base(2, 3, accumulation) + restless_fp16);
    BOOST_TEST(skipped >= 3U);
    BOOST_TEST(skipped <= steps - 3);
  }
}

BOOST_AUTO_TEST_CASE(every_precision_and_optimizer_keeps_its_bits) {
  check_alike(base(2, 3, 1));
  check_alike(base(3, 3, 2) + settings{"bf16.enabled=true", "bf16.check_grad_overflow=true"});
  check_alike(base(2, 3, 2) + settings{"optimizer={type: Lion, params: {lr: 1.0e-3}}", "gradient_order=per_step"});
  check_alike(base(1, 3, 1) + settings{"optimizer={type: Adagrad, params: {lr: 1.0e-2}}"} + restless_fp16);
}

// The step that takes the checkpoint also updates before its vote; its updates wait for the snapshots.
BOOST_AUTO_TEST_CASE(a_run_resumes_from_a_checkpoint_in_either_order) {
  const small_job job(tiny_gpt2);
  const settings set = base(2, 3, 1) + restless_fp16;
  const auto folder = job.folder() / "saved";
  auto s = job.open(set + ahead);
  for (int i = 0; i < 4; ++i) step_of(*s);
  BOOST_TEST_REQUIRE(s->save({.root = folder}).has_value());
  const auto wanted = result_of(*s, steps);
  BOOST_TEST(wanted.skipped > 0U);
  for (const auto& more : {settings{}, ahead}) {
    auto again = actors::session::open({.config = job.config(set + more), .resume = folder});
    BOOST_TEST_REQUIRE(again.has_value(), (again ? "" : again.error().text));
    check_same(result_of(**again, steps), wanted);
  }
}

BOOST_AUTO_TEST_CASE(with_clipping_updates_wait_for_the_norm) {
  const small_job job(tiny_gpt2);
  auto s = job.open(base(2, 3, 1) + ahead + settings{"gradient_clipping=1.0"});
  BOOST_TEST(speculated(*s) == 0U);
  BOOST_TEST(step_of(*s).loss > 0);
}

// Such a step is not skipped, so it ends the run, with the same words as without speculation.
BOOST_AUTO_TEST_CASE(a_gradient_that_is_not_finite_ends_the_run) {
  const small_job job(tiny_gpt2);
  const settings too_large = {"communication_data_type=fp16", "zero_optimization.reduce_scatter=false",
                              "gradient_predivide_factor=1.0e-9"};
  for (const auto& set : {settings{}, ahead}) {
    auto s = job.open(base(2, 3, 1) + too_large + set);
    const auto r = s->step();
    BOOST_REQUIRE(!r.has_value());
    BOOST_TEST(r.error().text.find("the gradient is not finite, first in ") != std::string::npos, r.error().text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
