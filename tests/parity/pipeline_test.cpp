// Checks that a pipeline changes no bit: with equal data degree, gradient order and rank of tied gradients, every cut
// into stages, every schedule that processes micro-batches in order and every ZeRO stage have the results of the
// unsharded run.
#include <fmt/format.h>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(pipeline)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 4;

const std::string zero = "zero_optimization.";
const settings small_pieces = {zero + "reduce_bucket_size=8192", zero + "sub_group_size=4096",
                               zero + "allgather_bucket_size=9000"};

settings job_of(int data, int micro_batches, const std::string& order) {
  return {fmt::format("parallel.data={}", data), fmt::format("gradient_accumulation_steps={}", micro_batches),
          "gradient_order=" + order};
}
settings stage(int n) { return {fmt::format("{}stage={}", zero, n)}; }
settings cut(int ranks, const std::string& schedule, int chunks = 1) {
  return {fmt::format("parallel.pipeline={}", ranks), "pipeline.schedule=" + schedule,
          fmt::format("pipeline.chunks={}", chunks)};
}

void check_cuts(const std::string& model, const settings& common, const std::vector<settings>& cuts) {
  const small_job job(model);
  const auto reference = train(job, common + stage(0), steps);
  BOOST_TEST(reference.losses.front() != reference.losses.back());
  for (const auto& each : cuts) BOOST_TEST_CONTEXT(text_of(common + each)) {
      check_same(train(job, common + each, steps), reference);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_stages_leave_the_bits_at_every_zero_stage) {
  for (const std::string order : {"per_step", "per_micro_batch"})
    check_cuts(tiny_llama, job_of(2, 3, order),
               {cut(2, "gpipe") + stage(0), cut(2, "gpipe") + stage(1) + small_pieces,
                cut(2, "gpipe") + stage(2) + small_pieces, cut(2, "gpipe") + stage(3) + small_pieces});
}

BOOST_AUTO_TEST_CASE(every_schedule_of_one_direction_leaves_the_bits) {
  check_cuts(tiny_llama, job_of(1, 4, "per_micro_batch"),
             {cut(2, "gpipe"), cut(3, "1f1b") + stage(3), cut(2, "looped_bfs", 2) + stage(2),
              cut(2, "interleaved", 2) + stage(3), cut(2, "zb_h1") + stage(1), cut(2, "zb_h2"), cut(3, "zb1p"),
              cut(2, "zb_v", 2) + stage(3)});
}

BOOST_AUTO_TEST_CASE(tied_weights_by_use_leave_the_bits) {
  check_cuts(tiny_gpt2_with_dropout, settings{"tied_gradients=per_use"} + job_of(2, 3, "per_step"),
             {cut(2, "1f1b") + stage(3) + small_pieces, cut(3, "zb_h1") + stage(1), cut(2, "zb_v", 2) + stage(2),
              cut(2, "gpipe")});
}

BOOST_AUTO_TEST_CASE(one_micro_batch_goes_through_more_stages) {
  check_cuts(tiny_llama, job_of(2, 1, "per_step"), {cut(4, "1f1b") + stage(3), cut(3, "gpipe") + stage(2)});
}

BOOST_AUTO_TEST_CASE(stages_compute_in_bf16_with_recomputation) {
  check_cuts(tiny_llama, settings{"bf16.enabled=true"} + job_of(2, 4, "per_micro_batch"),
             {cut(2, "1f1b") + stage(3) + small_pieces + settings{"activation_checkpointing.enabled=true"},
              cut(2, "zb_h1") + stage(2)});
}

BOOST_AUTO_TEST_SUITE_END()
