// Tests pipeline schedules in which stages process micro-batches out of order. Their gradient sums have another order
// and therefore other bits than the uncut run, but the bits are equal in every run, at every ZeRO stage and in every
// memory tier; the summands are those of the uncut run.
#include <fmt/format.h>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(any_order)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 4;

const std::string zero = "zero_optimization.";
const settings small_pieces = {zero + "reduce_bucket_size=8192", zero + "sub_group_size=4096",
                               zero + "allgather_bucket_size=9000"};

/// All stages run backward from the last micro-batch to the first, as PyTorch's LoopedBFS does.
const std::string reversed =
    "0F0,0F1,0F2,0F3,2F0,2F1,2F2,2F3,2B3,2B2,2B1,2B0,0B3,0B2,0B1,0B0\n"
    "1F0,1F1,1F2,1F3,3F0,3F1,3F2,3F3,3B3,3B2,3B1,3B0,1B3,1B2,1B1,1B0\n";
/// Only stage 0 processes the micro-batches out of order.
const std::string one_stage =
    "0F0,0F1,0F2,0F3,0B0,0B2,0B1,0B3\n"
    "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n";
/// The forward, input-gradient and weight-gradient parts of a stage each have their own order of micro-batches; the
/// last micro-batch is the last one in none of them.
const std::string split =
    "0F2,0F0,0F3,0F1,0I1,0I3,0W3,0I0,0I2,0W2,0W1,0W0\n"
    "1F3,1F1,1I3,1F0,1I1,1W1,1F2,1W3,1I2,1I0,1W0,1W2\n";
/// Embedding and head are on one rank; their backwards alternate, and the embedding's are out of order.
const std::string folded =
    "0F0,0F1,0F2,0F3,3F0,3F1,3F2,3F3,3B0,3B1,3B2,0B1,3B3,0B3,0B0,0B2\n"
    "1F0,1F1,1F2,1F3,2F0,2F1,2F2,2F3,2B0,2B1,1B1,2B2,2B3,1B3,1B0,1B2\n";

settings stage(int n) { return {fmt::format("{}stage={}", zero, n)}; }

class reordered_job : public small_job {
 public:
  explicit reordered_job(const std::string& model = tiny_llama) : small_job(model) {}

  [[nodiscard]] settings cut(const std::string& schedule) const {
    return {"parallel.pipeline=2", "pipeline.any_order=true",
            "pipeline.schedule=" + folder().write("own.csv", schedule).string()};
  }
};

settings job_of(int data, const std::string& order) {
  return {fmt::format("parallel.data={}", data), "gradient_accumulation_steps=4", "gradient_order=" + order};
}

/// Checks that a schedule has the same bits at every ZeRO stage and when it is repeated, and results near those of the
/// uncut run.
void check_schedule(const reordered_job& job, const settings& common, const std::string& schedule,
                    double tolerance = 1e-6) {
  const auto uncut = train(job, common + stage(0), steps);
  const auto first = train(job, common + stage(0) + job.cut(schedule), steps);
  BOOST_TEST(uncut.losses.front() != uncut.losses.back());
  check_near(first, uncut, tolerance);
  check_same(train(job, common + stage(0) + job.cut(schedule), steps), first);
  for (int n = 1; n <= 3; ++n) BOOST_TEST_CONTEXT("stage " << n) {
      check_same(train(job, common + stage(n) + small_pieces + job.cut(schedule), steps), first);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_stage_that_leaves_the_order_has_the_same_bits_at_every_zero_stage) {
  const reordered_job job;
  for (const std::string order : {"per_step", "per_micro_batch"}) BOOST_TEST_CONTEXT(order) {
      check_schedule(job, job_of(2, order), one_stage);
    }
}

BOOST_AUTO_TEST_CASE(a_backward_in_reverse_has_the_same_bits_at_every_zero_stage) {
  const reordered_job job;
  for (const std::string order : {"per_step", "per_micro_batch"}) BOOST_TEST_CONTEXT(order) {
      check_schedule(job, job_of(2, order), reversed);
    }
}

BOOST_AUTO_TEST_CASE(a_split_backward_in_any_order_has_the_same_bits_at_every_zero_stage) {
  const reordered_job job;
  for (const std::string order : {"per_step", "per_micro_batch"}) BOOST_TEST_CONTEXT(order) {
      check_schedule(job, job_of(2, order), split);
    }
}

// The test uses fp64, so that a contribution that is lost or counted twice exceeds the rounding errors.
BOOST_AUTO_TEST_CASE(nothing_is_lost_or_counted_twice) {
  const reordered_job job(tiny_gpt2_with_dropout);
  for (const std::string tied : {"per_use", "in_bucket"})
    for (const std::string order : {"per_step", "per_micro_batch"})
      for (const std::string& schedule : {folded, split}) {
        // Both uses of a weight with one bucket must be on one rank.
        if (tied == "in_bucket" && schedule != folded) continue;
        BOOST_TEST_CONTEXT(tied << ", " << order) {
          check_schedule(job,
                         job_of(2, order) + settings{"tied_gradients=" + tied, "data_types.param_dtype=fp64",
                                                     "pipeline.partition=uniform"},
                         schedule, 1e-12);
        }
      }
}

// The backward of the head runs some micro-batches before that of the embedding, and both add to the bucket of the tied
// weight.
BOOST_AUTO_TEST_CASE(a_weight_that_two_stages_of_a_rank_share_keeps_the_bits_if_ranks_are_summed_first) {
  const small_job job(tiny_gpt2);
  const settings cut = {"tied_gradients=in_bucket", "parallel.pipeline=2", "pipeline.schedule=zb_v"};
  const auto uncut = settings{"tied_gradients=in_bucket"} + stage(0);
  const auto reference = train(job, job_of(2, "per_micro_batch") + uncut, steps);
  for (const int n : {0, 2, 3}) check_same(train(job, job_of(2, "per_micro_batch") + cut + stage(n), steps), reference);
  const auto refused = job.try_open(job_of(2, "per_step") + cut);
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.find("tied_gradients: wanted per_use") != std::string::npos, refused.error().text);
  const auto allowed = job_of(2, "per_step") + cut + settings{"pipeline.any_order=true"};
  check_near(train(job, allowed, steps), train(job, job_of(2, "per_step") + uncut, steps), 1e-6);
}

BOOST_AUTO_TEST_CASE(tiers_recomputation_and_updates_before_the_vote_leave_the_bits) {
  const reordered_job job(tiny_gpt2);
  const auto common = job_of(2, "per_micro_batch") + settings{"bf16.enabled=true", "gradient_clipping=0"};
  const std::string files = zero + "offload_optimizer.nvme_path=" + job.folder().path().string();
  for (const std::string& schedule : {reversed, split}) {
    const auto wanted = train(job, common + stage(0) + job.cut(schedule), steps);
    const auto alike = [&](const settings& set) {
      BOOST_TEST_CONTEXT(text_of(set)) {
        check_same(train(job, common + stage(3) + small_pieces + job.cut(schedule) + set, steps), wanted);
      }
    };
    alike({"activation_checkpointing.enabled=true", "cluster.offload_activations=cpu",
           zero + "zero_hpz_partition_size=2"});
    alike({zero + "offload_optimizer.device=cpu", zero + "offload_optimizer.super_offload=true"});
    alike({zero + "offload_optimizer.device=nvme", files, zero + "offload_param.device=nvme",
           zero + "offload_param.nvme_path=" + job.folder().path().string(), "cluster.swap_gradients=true",
           "activation_checkpointing.enabled=true", "cluster.offload_activations=nvme"});
    alike({zero + "offload_optimizer.device=nvme", files});
  }
}

// Skipped steps are undone correctly although the last summand is not that of the last micro-batch.
BOOST_AUTO_TEST_CASE(skipped_steps_leave_the_bits) {
  const reordered_job job(tiny_gpt2);
  const auto common =
      job_of(1, "per_step") + settings{"fp16.enabled=true", "fp16.initial_scale_power=24", "fp16.loss_scale_window=2",
                                       "fp16.hysteresis=1", "gradient_clipping=0"};
  const auto wanted = train(job, common + stage(0) + job.cut(split), 12);
  const auto got = train(job,
                         common + stage(3) + job.cut(split) +
                             settings{zero + "offload_optimizer.device=cpu",
                                      zero + "offload_optimizer.super_offload=true", zero + "sub_group_size=4096"},
                         12);
  check_same(got, wanted);
  BOOST_TEST(got.skipped >= 2U);
  BOOST_TEST(got.skipped == wanted.skipped);
}

BOOST_AUTO_TEST_CASE(a_run_resumes_from_a_checkpoint_in_any_order) {
  const reordered_job job;
  const auto set = job_of(2, "per_micro_batch") + stage(3) + job.cut(one_stage);
  const auto folder = job.folder() / "saved";
  auto s = job.open(set);
  for (int i = 0; i < 3; ++i) step_of(*s);
  BOOST_TEST_REQUIRE(s->save({.root = folder}).has_value());
  const auto wanted = result_of(*s, steps);
  auto again = actors::session::open({.config = job.config(set), .resume = folder});
  BOOST_TEST_REQUIRE(again.has_value(), (again ? "" : again.error().text));
  check_same(result_of(**again, steps), wanted);
}

BOOST_AUTO_TEST_SUITE_END()
