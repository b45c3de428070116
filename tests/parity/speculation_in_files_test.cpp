// Checks that updates of states in swap files before the gradient norm is known have the bits of updates that wait for
// it, also if steps are skipped or clipped and undone, and in runs that decide by their last steps.
#include <fmt/format.h>

#include "job/early_updates.hpp"
#include "tests/parity/early_updates.hpp"

BOOST_AUTO_TEST_SUITE(speculation_in_files)

using namespace troupe;
using namespace troupe::tests;

namespace {

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

}  // namespace

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
    if (i % 2 == 0) BOOST_TEST_REQUIRE(s->save({.root = job.folder() / fmt::format("two-places{}", i)}).has_value());
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

BOOST_AUTO_TEST_SUITE_END()
