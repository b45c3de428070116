// Tests ZenFlow: columns with large gradients are updated in every step, the others at fixed steps with their deferred
// gradients. The bits are equal at every ZeRO stage and in every run, and no gradient is deferred longer than
// docs/numerics.md allows.
#include <fmt/format.h>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(late_updates)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t interval = 3, steps = 12;

settings base(int ranks, int stage) {
  return {fmt::format("parallel.data={}", ranks), fmt::format("zero_optimization.stage={}", stage),
          "zero_optimization.offload_optimizer.device=cpu", "zero_optimization.sub_group_size=4096"};
}
settings late(uint64_t warm_up = 0) {
  const std::string key = "zero_optimization.zenflow.";
  return {key + "topk_ratio=0.2", key + "select_strategy=step", key + "select_interval=6",
          fmt::format("{}update_interval={}", key, interval), fmt::format("{}full_warm_up_rounds={}", key, warm_up)};
}

std::vector<std::vector<float>> weights_of(const actors::session& s) {
  std::vector<std::vector<float>> out;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) out.push_back(parameter_of(s, q));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(late_updates_leave_the_same_bits_at_every_stage_and_in_every_run) {
  const small_job job(tiny_gpt2);
  for (const auto& more :
       {settings{}, settings{"bf16.enabled=true", "gradient_accumulation_steps=2", "gradient_order=per_micro_batch"}}) {
    const auto wanted = train(job, base(2, 3) + late() + more, steps);
    BOOST_TEST(wanted.losses.front() != wanted.losses.back());
    BOOST_TEST(wanted.memory.deferred > 0U);
    for (const int stage : {1, 2, 3}) check_same(train(job, base(2, stage) + late() + more, steps), wanted);
  }
}

// A rank chooses columns within its own slice of its tensor shard, so the choices are equal if tensor and data degrees
// are equal.
BOOST_AUTO_TEST_CASE(late_updates_of_shares_of_a_tensor_group_leave_the_same_bits_at_every_stage_and_cut) {
  const auto pipelined = [](const char* schedule) {
    return settings{"parallel.pipeline=2", std::string("pipeline.schedule=") + schedule};
  };
  for (const auto& [model, degree] : {std::pair{tiny_gpt2, 2}, std::pair{tiny_llama, 3}}) {
    const small_job job(model);
    for (const auto& more : {settings{}, settings{"bf16.enabled=true", "gradient_accumulation_steps=2"}}) {
      const settings common =
          late() + more +
          settings{fmt::format("parallel.tensor={}", degree), "gradient_order=per_step", "tied_gradients=per_use"};
      const auto wanted = train(job, base(2, 3) + common, steps);
      BOOST_TEST(wanted.losses.front() != wanted.losses.back());
      BOOST_TEST(wanted.memory.deferred > 0U);
      for (const auto& cut :
           {base(2, 1), base(2, 2), base(2, 2) + pipelined("1f1b"), base(2, 3) + pipelined("zb_h1"),
            base(2, 3) + settings{"activation_checkpointing.enabled=true", "cluster.offload_activations=cpu"}})
        BOOST_TEST_CONTEXT(model << text_of(cut + common)) { check_same(train(job, cut + common, steps), wanted); }
    }
  }
}

BOOST_AUTO_TEST_CASE(whole_updates_come_first_where_they_are_asked_for) {
  const small_job job(tiny_gpt2);
  const auto plain = train(job, base(2, 3), steps);
  check_same(train(job, base(2, 3) + late(steps), steps), plain);
  BOOST_TEST(!same_bits(train(job, base(2, 3) + late(steps - 1), steps).weights, plain.weights));
}

// The gradient of a step must be applied at most update_interval - 1 steps later.
BOOST_AUTO_TEST_CASE(no_gradient_waits_longer_than_its_interval) {
  const small_job job(tiny_gpt2);
  auto s = job.open(base(2, 3) + late() + settings{"optimizer.type=AdamW"});
  auto before = weights_of(*s);
  std::vector<std::vector<uint64_t>> waited(before.size());
  // The test compares matrices only, because weight decay changes all of their elements in every update.
  for (size_t q = 0; q < before.size(); ++q)
    if (s->table().parameters[q].shape.size() == 2) waited[q].assign(before[q].size(), 0);
  uint64_t late_ones = 0, longest = 0;
  for (uint64_t t = 1; t <= steps; ++t) {
    BOOST_TEST_INFO_SCOPE("t " << t);
    step_of(*s);
    auto now = weights_of(*s);
    for (size_t q = 0; q < now.size(); ++q)
      for (size_t i = 0; i < waited[q].size(); ++i) {
        BOOST_TEST_INFO_SCOPE("i " << i);
        BOOST_TEST_INFO_SCOPE("q " << q);
        if (now[q][i] != before[q][i]) {
          waited[q][i] = 0;
          continue;
        }
        longest = std::max(longest, ++waited[q][i]);
        late_ones += 1;
        BOOST_REQUIRE(t % interval != 0);  // all deferred gradients are applied at a multiple of the interval
      }
    before = std::move(now);
  }
  BOOST_TEST(longest == interval - 1);
  BOOST_TEST(late_ones > 0U);
}

BOOST_AUTO_TEST_CASE(a_run_resumes_from_a_checkpoint_just_before_a_choice) {
  const small_job job(tiny_gpt2);
  const auto folder = job.folder() / "saved";
  auto s = job.open(base(2, 3) + late());
  for (int i = 0; i < 6; ++i) step_of(*s);
  BOOST_TEST_REQUIRE(s->save({.root = folder}).has_value());
  const auto wanted = result_of(*s, steps);
  auto again = actors::session::open({.config = job.config(base(2, 3) + late()), .resume = folder});
  BOOST_TEST_REQUIRE(again.has_value(), (again ? "" : again.error().text));
  check_same(result_of(**again, steps), wanted);
}

BOOST_AUTO_TEST_CASE(steps_that_are_skipped_defer_nothing) {
  const small_job job(tiny_gpt2);
  const settings restless_fp16 = {"fp16.enabled=true", "fp16.initial_scale_power=24", "fp16.loss_scale_window=3",
                                  "fp16.hysteresis=1"};
  const auto wanted = train(job, base(2, 3) + late() + restless_fp16, steps);
  BOOST_TEST(wanted.skipped > 2U);
  check_same(train(job, base(2, 1) + late() + restless_fp16, steps), wanted);
}

BOOST_AUTO_TEST_SUITE_END()
