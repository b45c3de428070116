// Checks that optimizer updates before the gradient norm is known have the bits of updates that wait for it, also if
// steps are skipped or clipped and undone in the middle of a run, and however the model is cut.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/text.hpp"
#include "job/early_updates.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(speculation)

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
// The loss scale doubles after every second step without overflow, and halves after an overflow: several of twelve
// steps are skipped.
const settings restless_fp16 = {"fp16.enabled=true", "fp16.initial_scale_power=24", "fp16.loss_scale_window=2",
                                "fp16.hysteresis=1"};

uint64_t speculated(const actors::session& s) {
  uint64_t n = 0;
  for (const auto& x : s.training_plan(0).instructions)
    n += x.kind == plan::kind::update && x.guard == plan::guard::always ? 1 : 0;
  return n;
}

// Returns the settings of `base` without the ones for CPU offload and for gradient clipping.
settings clipping(int ranks, int stage, int accumulation) {
  auto out = base(ranks, stage, accumulation);
  std::erase_if(out, [](const std::string& x) {
    return x.find("device=cpu") != std::string::npos || x == "gradient_clipping=0";
  });
  return out;
}
const settings early = {"cluster.early_updates=true"}, late = {"cluster.early_updates=false"};
settings limit_of(double norm) { return {"gradient_clipping=" + core::number_text(norm)}; }
settings pipeline(int ranks, const std::string& schedule, int chunks = 1) {
  return {"parallel.pipeline=" + std::to_string(ranks), "pipeline.schedule=" + schedule,
          "pipeline.chunks=" + std::to_string(chunks)};
}

std::vector<double> finite_norms(const run_result& r) {
  std::vector<double> out;
  for (const uint64_t bits : r.norms)
    if (const auto norm = std::bit_cast<double>(bits); std::isfinite(norm)) out.push_back(norm);
  return out;
}

/// Returns a gradient-clipping limit that about half of the steps exceed.
settings middle_limit(const small_job& job, const settings& set) {
  auto norms = finite_norms(train(job, set + settings{"gradient_clipping=0"}, steps));
  std::ranges::nth_element(norms, norms.begin() + static_cast<std::ptrdiff_t>(norms.size() / 2));
  return limit_of(norms[norms.size() / 2]);
}

uint64_t redone(const actors::session& s) {
  return static_cast<uint64_t>(
      std::ranges::count_if(s.training_plan(0).instructions, [](const auto& x) { return x.kind == plan::kind::redo; }));
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

settings files(const small_job& job, int stage, int accumulation, bool parameters) {
  const std::string path = (job.folder().path() / "swap").string();
  auto out = clipping(2, stage, accumulation) + settings{"zero_optimization.offload_optimizer.device=nvme",
                                                         "zero_optimization.offload_optimizer.nvme_path=" + path};
  if (parameters)
    out = out +
          settings{"zero_optimization.offload_param.device=nvme", "zero_optimization.offload_param.nvme_path=" + path};
  return out;
}

/// Compares early with late updates of states in swap files, with a clipping limit that some steps exceed and others do
/// not.
void check_files(const small_job& job, const settings& set) {
  const auto limited = set + middle_limit(job, set);
  BOOST_TEST_CONTEXT(text_of(limited)) {
    const auto wanted = train(job, limited + late, steps);
    auto s = job.open(limited + early);
    BOOST_TEST(speculated(*s) >= 3U);
    BOOST_TEST(redone(*s) == speculated(*s));
    BOOST_TEST(s->training_plan(0).options().tiers.two_places);
    const auto got = result_of(*s, steps);
    check_same(got, wanted);
    BOOST_TEST(got.skipped == wanted.skipped);
    const double limit = job.config(limited)->gradient_clipping;
    const auto norms = finite_norms(wanted);
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
    const auto folder = job.folder() / ("saved" + std::to_string(set.size()));
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
    const settings at = {"zero_optimization.stage=" + std::to_string(stage)};
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

BOOST_AUTO_TEST_CASE(states_in_files_keep_their_bits_early_and_late) {
  const small_job job(tiny_gpt2);
  for (const int stage : {1, 3}) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    auto set = clipping(2, stage, 2) +
               settings{"gradient_clipping=0", "zero_optimization.offload_optimizer.device=nvme",
                        "zero_optimization.offload_optimizer.nvme_path=" + (job.folder().path() / "swap").string()};
    const auto wanted = train(job, set + late, steps);
    auto s = job.open(set + early);
    BOOST_TEST(speculated(*s) >= 4U);
    check_same(result_of(*s, steps), wanted);
  }
}

BOOST_AUTO_TEST_CASE(states_in_files_that_are_skipped_or_clipped_keep_their_bits) {
  const small_job job(tiny_gpt2);
  const settings gradients = {"cluster.swap_gradients=true"},
                 some = {"zero_optimization.offload_param.max_in_cpu=20000"};
  check_files(job, files(job, 1, 2, false));
  check_files(job, files(job, 2, 1, false) + settings{"bf16.enabled=true"});
  check_files(job, files(job, 3, 1, true) + gradients);
  check_files(job, files(job, 3, 2, true) + some + settings{"bf16.enabled=true"});
  check_files(job, files(job, 3, 1, true) + some + restless_fp16);
  check_files(job, files(job, 3, 1, false) + gradients + restless_fp16);
  check_files(job, files(job, 3, 2, true) + gradients + restless_fp16 +
                       settings{"zero_optimization.offload_optimizer.ratio=0.5"});
}

// The swap file has two copies of the states. The save runs in the next step, whose updates already write the other
// copy.
BOOST_AUTO_TEST_CASE(a_run_with_two_places_resumes_from_its_checkpoints_in_either_order) {
  const small_job job(tiny_gpt2);
  const auto set = files(job, 3, 1, true) + restless_fp16;
  const auto limited = set + middle_limit(job, set);
  auto s = job.open(limited + early);
  for (int i = 0; i < 5; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    step_of(*s);
    if (i % 2 == 0)
      BOOST_TEST_REQUIRE(s->save({.root = job.folder() / ("two-places" + std::to_string(i))}).has_value());
  }
  const auto wanted = result_of(*s, steps);
  s.reset();  // the swap folder allows only one session at a time
  for (const auto& order : {late, early}) {
    auto again = actors::session::open({.config = job.config(limited + order), .resume = job.folder() / "two-places4"});
    BOOST_TEST_REQUIRE(again.has_value(), (again ? "" : again.error().text));
    check_same(result_of(**again, steps), wanted);
  }
}

// Twenty steps are not clipped, then twenty are clipped; the run may enable early updates after every eight steps.
BOOST_AUTO_TEST_CASE(a_run_that_decides_by_its_last_steps_keeps_its_bits_and_does_not_begin_early) {
  const small_job job(tiny_gpt2);
  const auto set = files(job, 3, 1, true) +
                   settings{"cluster.swap_gradients=true", "zero_optimization.offload_param.max_in_cpu=20000"};
  const settings never = {"gradient_clipping=1e9"}, always = {"gradient_clipping=1e-9"};
  constexpr uint64_t longer = 20;
  auto s = job.open(set + never);
  BOOST_TEST(speculated(*s) == 0U);
  const auto got = result_of(*s, longer);
  s.reset();  // the swap folder allows only one session at a time
  check_same(got, train(job, set + never + late, longer));
  auto clipped = job.open(set + always);
  const auto waited = result_of(*clipped, longer);
  BOOST_TEST(speculated(*clipped) == 0U);
  clipped.reset();
  check_same(waited, train(job, set + always + early, longer));
  auto in_memory = job.open(clipping(2, 3, 1) + never);
  BOOST_TEST(!in_memory->training_plan(0).options().tiers.two_places);
}

// The swap settings fix the sizes that are otherwise chosen by measured rates, so early updates are predicted to be
// faster on every machine.
BOOST_AUTO_TEST_CASE(a_run_that_decides_for_early_updates_has_two_places_and_keeps_its_bits) {
  const small_job job(tiny_gpt2, made_up_text(20'000));
  const auto set = files(job, 3, 1, true) + settings{"train_micro_batch_size_per_gpu=64",
                                                     "cluster.swap_gradients=false",
                                                     "zero_optimization.sub_group_size=8192",
                                                     "zero_optimization.offload_optimizer.buffer_count=4",
                                                     "zero_optimization.offload_param.buffer_count=4",
                                                     "zero_optimization.offload_param.max_in_cpu=20000"};
  const settings never = {"gradient_clipping=1e9"}, always = {"gradient_clipping=1e-9"};
  constexpr uint64_t longer = 20;
  for (const auto& limit : {never, always}) {
    BOOST_TEST_CONTEXT(text_of(limit)) {
      const auto wanted = train(job, set + limit + late, longer);
      auto s = job.open(set + limit);
      BOOST_TEST(s->training_plan(0).options().tiers.two_places);
      run_result before;
      uint64_t early_steps = 0;
      for (uint64_t i = 0; i + 1 < longer; ++i) {
        const auto r = step_of(*s);
        before.losses.push_back(std::bit_cast<uint64_t>(r.loss));
        before.norms.push_back(std::bit_cast<uint64_t>(r.grad_norm));
        early_steps += speculated(*s) >= 3 ? 1 : 0;
      }
      auto got = result_of(*s, 1);
      got.losses.insert(got.losses.begin(), before.losses.begin(), before.losses.end());
      got.norms.insert(got.norms.begin(), before.norms.begin(), before.norms.end());
      check_same(got, wanted);
      BOOST_TEST(early_steps == (limit == never ? longer - 1 - troupe::job::undone_steps::window : 0U));
    }
  }
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
