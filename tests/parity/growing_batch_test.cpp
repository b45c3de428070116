// Trains with a batch that grows (data.rampup_batch_size): steps have the samples of Megatron-LM's rule and the bits of
// jobs of that batch, for all ZeRO stages, pipelines and states in files, and a resumed run grows on.
#include <fmt/format.h>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(growing_batch)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 6;
const std::vector<uint64_t> rows = {4, 4, 8, 12, 16, 16};
const settings common = {"parallel.data=2", "gradient_accumulation_steps=4", "data.rampup_batch_size=[4, 4, 24]",
                         "tied_gradients=per_use", "zero_optimization.stage3_param_persistence_threshold=0"};

settings stage(int n) { return {fmt::format("zero_optimization.stage={}", n)}; }

}  // namespace

BOOST_AUTO_TEST_CASE(each_step_has_the_samples_and_tokens_of_its_place) {
  const small_job job;
  const auto s = job.open(common);
  for (const uint64_t wanted : rows) {
    const auto did = step_of(*s);
    BOOST_TEST(did.tokens == wanted * s->sequence());
    BOOST_TEST(s->training_plan(0).options().accumulation == wanted / 4);
  }
}

BOOST_AUTO_TEST_CASE(the_first_steps_have_the_bits_of_a_job_of_their_batch) {
  const small_job job;
  for (const int n : {0, 1, 2, 3}) BOOST_TEST_CONTEXT("stage " << n) {
      const auto grown = train(job, common + stage(n), 2);
      settings small = common + stage(n);
      small[1] = "gradient_accumulation_steps=1";
      small.erase(small.begin() + 2);
      check_same(train(job, small, 2), grown);
    }
}

BOOST_AUTO_TEST_CASE(stages_pipelines_and_files_leave_the_bits) {
  const small_job job;
  const settings in_files = {"zero_optimization.offload_optimizer.device=nvme",
                             "zero_optimization.offload_optimizer.nvme_path=" + (job.folder() / "swap").string()};
  const settings cut = {"parallel.pipeline=2"};
  const auto by_step = train(job, common + stage(0), steps);
  for (const auto& more : {stage(1), stage(1) + cut, stage(0) + cut})
    BOOST_TEST_CONTEXT(text_of(more)) check_same(train(job, common + more, steps), by_step);
  const auto by_micro_batch = train(job, common + stage(2), steps);
  for (const auto& more : {stage(3), stage(3) + cut, stage(3) + in_files})
    BOOST_TEST_CONTEXT(text_of(more)) check_same(train(job, common + more, steps), by_micro_batch);
}

BOOST_AUTO_TEST_CASE(a_change_of_degrees_keeps_the_growth) {
  const small_job job;
  const auto s = job.open(common);
  step_of(*s);
  settings other = common;
  other[2] = "data.rampup_batch_size=[8, 8, 24]";
  const auto refused = s->change_degrees(job.config(other));
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.starts_with("data.rampup_batch_size: wanted [4, 4, 24], as before in this run"),
             refused.error().text);
}

BOOST_AUTO_TEST_CASE(a_resumed_run_grows_on) {
  const small_job job;
  const auto whole = train(job, common + stage(3), steps);
  const auto folder = job.folder() / "saved";
  {
    const auto s = job.open(common + stage(3));
    for (uint64_t n = 0; n < 3; ++n) step_of(*s);
    const auto saved = s->save({.root = folder});
    BOOST_TEST_REQUIRE(saved.has_value(), (saved ? "" : saved.error().text));
  }
  auto opened = actors::session::open({.config = job.config(common + stage(3)), .resume = folder});
  BOOST_TEST_REQUIRE(opened.has_value(), (opened ? "" : opened.error().text));
  const auto got = result_of(**opened, steps - 3);
  BOOST_TEST(std::equal(got.losses.begin(), got.losses.end(), whole.losses.begin() + 3, whole.losses.end()));
  BOOST_TEST(same_bits(got.weights, whole.weights), "weights differ");
}

BOOST_AUTO_TEST_SUITE_END()
