// Checks that optimizer updates before the gradient norm is known have the bits of updates that wait for it, also if
// steps are skipped or clipped and undone in the middle of a run, and however the model is cut.
#include <fmt/format.h>

#include <map>

#include "tests/parity/early_updates.hpp"

BOOST_AUTO_TEST_SUITE(speculation)

using namespace troupe;
using namespace troupe::tests;

namespace {

settings pipeline(int ranks, const std::string& schedule, int chunks = 1) {
  return {fmt::format("parallel.pipeline={}", ranks), "pipeline.schedule=" + schedule,
          fmt::format("pipeline.chunks={}", chunks)};
}

/// A job with late updates, and a clipping limit that some of its steps exceed and others do not.
struct late_run {
  explicit late_run(const std::string& model, const settings& set)
      : job(model), limited(set + middle_limit(job, set)), result(train(job, limited + late, steps)) {}

  small_job job;
  settings limited;
  run_result result;
};

/// Returns the run of a model with these settings; runs that differ in `cut` alone share it.
const late_run& late_run_of(const std::string& model, const settings& set) {
  static std::map<std::string, late_run> all;
  return all.try_emplace(model + text_of(set), model, set).first->second;
}

/// Compares early with late updates, with a clipping limit that some steps exceed and others do not; `cut` applies to
/// the run with early updates only.
void check_clipped(const settings& set, const settings& cut = {}, const std::string& model = tiny_gpt2) {
  const auto& [job, limited, wanted] = late_run_of(model, set);
  BOOST_TEST_CONTEXT(text_of(limited + cut)) {
    auto s = job.open(limited + cut + early);
    BOOST_TEST(speculated(*s) >= 3U);
    BOOST_TEST(redone(*s) == speculated(*s));
    const auto got = result_of(*s, steps);
    check_same(got, wanted);
    BOOST_TEST(got.skipped == wanted.skipped);
    BOOST_TEST(got.memory.undo > 0U);
    BOOST_TEST(wanted.memory.undo == 0U);
    const auto norms = finite_norms(wanted);
    const double limit = job.config(limited)->gradient_clipping;
    const auto above = std::ranges::count_if(norms, [&](double x) { return x > limit; });
    BOOST_TEST(above > 0);
    BOOST_TEST(above < static_cast<std::ptrdiff_t>(norms.size()));
  }
}

/// Compares early with late updates of steps without clipping; returns the number of skipped steps.
uint64_t check_alike(const settings& set) {
  const small_job job(tiny_gpt2);
  const auto wanted = train(job, set, steps);
  auto s = job.open(set + ahead);
  BOOST_TEST(speculated(*s) >= 4U);
  const auto got = result_of(*s, steps);
  check_same(got, wanted);
  BOOST_TEST(got.skipped == wanted.skipped);
  BOOST_TEST(got.losses.front() != got.losses.back());
  // Undo copies exist only if steps may be skipped.
  BOOST_TEST((got.memory.undo > 0U) == s->training_plan(0).options().updates.may_skip);
  BOOST_TEST(wanted.memory.undo == 0U);
  return got.skipped;
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_that_overflow_are_undone_bit_for_bit) {
  for (const int accumulation : {1, 2}) {
    BOOST_TEST_INFO_SCOPE("accumulation " << accumulation);
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

// The step that saves the checkpoint also updates before the gradient norm is known; its updates wait for the
// snapshots.
BOOST_AUTO_TEST_CASE(a_run_resumes_from_a_checkpoint_in_either_order) {
  const small_job job(tiny_gpt2);
  const settings unclipped = base(2, 3, 1) + restless_fp16, plain = clipping(2, 3, 1) + restless_fp16;
  for (const auto& [set, sooner] : {std::pair{unclipped, ahead}, {plain + middle_limit(job, plain), early}}) {
    const auto folder = job.folder() / fmt::format("saved{}", set.size());
    auto s = job.open(set + sooner);
    for (int i = 0; i < 4; ++i) step_of(*s);
    BOOST_TEST_REQUIRE(s->save({.root = folder}).has_value());
    const auto wanted = result_of(*s, steps);
    BOOST_TEST(wanted.skipped > 0U);
    for (const auto& more : {settings{}, sooner}) {
      auto again = actors::session::open({.config = job.config(set + more), .resume = folder});
      BOOST_TEST_REQUIRE(again.has_value(), (again ? "" : again.error().text));
      check_same(result_of(**again, steps), wanted);
    }
  }
}

BOOST_AUTO_TEST_CASE(steps_that_clip_are_done_again_bit_for_bit_at_every_stage) {
  const settings bf16 = {"bf16.enabled=true"}, per_step = {"gradient_order=per_step"},
                 per_micro = {"gradient_order=per_micro_batch"};
  for (int stage = 0; stage <= 3; ++stage) {
    const settings at = {fmt::format("zero_optimization.stage={}", stage)};
    check_clipped(clipping(2, 0, 1), at);
    check_clipped(clipping(2, 0, 2) + bf16 + (stage % 2 == 0 ? per_micro : per_step), at);
    check_clipped(clipping(1 + stage % 2, 0, 2) + restless_fp16 + (stage % 2 == 0 ? per_step : per_micro), at);
  }
}

BOOST_AUTO_TEST_CASE(every_optimizer_of_elements_keeps_its_bits_where_steps_clip) {
  check_clipped(clipping(2, 3, 1) + settings{"optimizer={type: Lion, params: {lr: 1.0e-3}}"});
  check_clipped(clipping(3, 2, 2) + settings{"optimizer={type: Adagrad, params: {lr: 1.0e-2}}"});
  check_clipped(clipping(2, 1, 1) + settings{"optimizer={type: SGD, params: {lr: 1.0e-2, momentum: 0.9}}"});
  check_clipped(base(2, 3, 2) + settings{"bf16.enabled=true"}, ahead);
}

BOOST_AUTO_TEST_CASE(pipelines_that_clip_keep_the_bits_of_the_uncut_run) {
  check_clipped(clipping(1, 0, 4), pipeline(2, "1f1b"), tiny_llama);
  check_clipped(clipping(2, 1, 3) + restless_fp16, pipeline(2, "zb_h1"), tiny_llama);
  check_clipped(clipping(2, 2, 4), pipeline(2, "interleaved", 2), tiny_llama);
  check_clipped(clipping(2, 3, 3) + settings{"tied_gradients=per_use", "gradient_order=per_step"},
                pipeline(2, "gpipe"));
}

BOOST_AUTO_TEST_CASE(with_clipping_updates_wait_for_the_norm_unless_asked) {
  const small_job job(tiny_gpt2);
  auto s = job.open(base(2, 3, 1) + ahead + settings{"gradient_clipping=1.0"});
  BOOST_TEST(speculated(*s) == 0U);
  BOOST_TEST(step_of(*s).loss > 0);
}

// A non-finite gradient without loss scaling does not skip the step but ends the run, with the same error as late
// updates.
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
