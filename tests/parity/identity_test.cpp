// Tests the guarantee of docs/numerics.md: sharding, gathering, bucketing, prefetching and recomputing change no bit.
// The full product of settings is too large; each group runs every ZeRO stage, and the other settings in rotation, so
// that every meaningful pair of (setting, stage) runs with both orders of summation, both model families and two data
// types.
#include <fmt/format.h>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(identity)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 6;

const std::string zero = "zero_optimization.";
settings stage(int n) { return {fmt::format("{}stage={}", zero, n)}; }
// Settings that result in at least four buckets and four sub-groups on every rank.
const settings small_pieces = {zero + "reduce_bucket_size=8192", zero + "sub_group_size=4096"};
const settings release_all = {zero + "stage3_param_persistence_threshold=0", zero + "stage3_max_reuse_distance=0"};

settings prefetch(uint64_t elements) { return {fmt::format("{}stage3_prefetch_bucket_size={}", zero, elements)}; }
settings persistence(uint64_t elements) {
  return {fmt::format("{}stage3_param_persistence_threshold={}", zero, elements)};
}
settings overlap(bool on) { return {zero + std::string("overlap_comm=") + (on ? "true" : "false")}; }
// Returns settings that limit the number of gathered elements, and thereby prefetching.
settings live_at_most(uint64_t elements) { return {fmt::format("{}stage3_max_live_parameters={}", zero, elements)}; }
const settings checkpointing = {"activation_checkpointing.enabled=true"};

// Settings that are added to those of a group, and the ZeRO stage to which they apply.
struct variant {
  int at_stage;
  settings set;
};

const std::vector<variant>& variants() {
  static const std::vector<variant> all = {
      {3, release_all + small_pieces + prefetch(0)},
      {3, release_all + small_pieces + prefetch(1) + live_at_most(20000)},
      {3, release_all + small_pieces + prefetch(20000) + live_at_most(20000) + checkpointing},
      {3, release_all + small_pieces + prefetch(20000) + overlap(false)},
      {3, small_pieces + prefetch(1000000) + persistence(100) + settings{zero + "stage3_max_reuse_distance=0"}},
      {3, small_pieces + persistence(100) + settings{zero + "stage3_max_reuse_distance=30000"}},
      {3, small_pieces + persistence(1000000)},
      {3, persistence(0) + live_at_most(20000)},
      {3, release_all + prefetch(0) + settings{zero + "reduce_bucket_size=1", zero + "sub_group_size=1"}},
      {3, {}},
      {2, small_pieces + overlap(true) + settings{zero + "allgather_bucket_size=9000"}},
      {2, small_pieces + overlap(false) + settings{zero + "round_robin_gradients=true"} + checkpointing},
      {2, small_pieces + settings{zero + "reduce_scatter=false"}},
      {1, small_pieces + settings{zero + "allgather_bucket_size=9000"} + overlap(true)},
      {1, small_pieces + settings{zero + "round_robin_gradients=true", zero + "reduce_scatter=false"}},
      {1, small_pieces + overlap(true) + checkpointing},
      {0, small_pieces + overlap(true)},
      {0, small_pieces + checkpointing},
  };
  return all;
}

bool has(const settings& all, const settings& some) {
  return std::search(all.begin(), all.end(), some.begin(), some.end()) != all.end();
}

void check_releases(const run_result& r) {
  BOOST_TEST(r.gathers > 0U);
  BOOST_TEST(r.gathers == r.releases);
  BOOST_TEST(r.buckets >= 4U);
  BOOST_TEST(r.sub_groups >= 4U);
}

// Compares stage 0 with default settings with variants [first, first + count) of each stage; count 0 means all
// variants.
void check_group(const std::string& model, const settings& common, size_t first, size_t count) {
  const small_job job(model);
  const auto reference = train(job, common + stage(0), steps);
  BOOST_TEST(reference.skipped == 0U);
  BOOST_TEST(reference.losses.front() != reference.losses.back());
  BOOST_TEST(reference.gathers == 0U);
  for (int at = 0; at <= 3; ++at) {
    std::vector<const variant*> mine;
    for (const auto& v : variants())
      if (v.at_stage == at) mine.push_back(&v);
    for (size_t k = 0; k < (count == 0 ? mine.size() : count); ++k) {
      const auto& v = *mine[(first + k) % mine.size()];
      BOOST_TEST_CONTEXT(text_of(common + stage(at) + v.set)) {
        const auto got = train(job, common + stage(at) + v.set, steps);
        check_same(got, reference);
        if (!has(v.set, release_all)) continue;
        check_releases(got);
        const uint64_t share = has(v.set, prefetch(0)) || has(v.set, overlap(false)) ? 2 : 1;
        BOOST_TEST(got.peak_live < got.model / share);
        BOOST_TEST(got.memory.gathered < got.model * core::size_of(got.parameter) / share);
      }
    }
  }
}

settings degrees(int ranks, int accumulation, const std::string& order) {
  return {fmt::format("parallel.data={}", ranks), fmt::format("gradient_accumulation_steps={}", accumulation),
          "gradient_order=" + order};
}
const settings fp32 = {};
const settings bf16 = {"bf16.enabled=true"};
const settings fp16 = {"fp16.enabled=true", "fp16.initial_scale_power=8"};
const std::string per_micro = "per_micro_batch", per_step = "per_step";

}  // namespace

BOOST_AUTO_TEST_CASE(every_setting_leaves_the_bits_of_gpt2_in_fp32_on_two_ranks) {
  check_group(tiny_gpt2, fp32 + degrees(2, 1, "auto"), 0, 0);
}

BOOST_AUTO_TEST_CASE(every_setting_leaves_the_bits_of_gpt2_in_bf16_on_three_ranks_summing_ranks_first) {
  check_group(tiny_gpt2_with_dropout, bf16 + degrees(3, 3, per_micro), 0, 0);
}

BOOST_AUTO_TEST_CASE(gpt2_with_dropout_in_fp32) {
  check_group(tiny_gpt2_with_dropout, fp32 + degrees(3, 1, "auto"), 3, 1);
  check_group(tiny_gpt2_with_dropout, fp32 + degrees(2, 3, per_step), 0, 2);
  check_group(tiny_gpt2_with_dropout, fp32 + degrees(3, 3, per_micro), 2, 1);
}

BOOST_AUTO_TEST_CASE(gpt2_in_bf16) {
  check_group(tiny_gpt2, bf16 + degrees(2, 1, "auto"), 4, 2);
  check_group(tiny_gpt2, bf16 + degrees(3, 3, per_step), 1, 2);
  check_group(tiny_gpt2, bf16 + degrees(2, 3, per_micro), 6, 1);
}

BOOST_AUTO_TEST_CASE(llama_with_grouped_queries_and_a_head_of_its_own_in_fp32) {
  check_group(tiny_llama, fp32 + degrees(2, 3, per_micro), 2, 2);
  check_group(tiny_llama, fp32 + degrees(3, 3, per_step), 5, 1);
}

BOOST_AUTO_TEST_CASE(llama_with_grouped_queries_and_a_head_of_its_own_in_bf16) {
  check_group(tiny_llama, bf16 + degrees(3, 1, "auto"), 0, 2);
  check_group(tiny_llama, bf16 + degrees(2, 3, per_step), 8, 1);
}

BOOST_AUTO_TEST_CASE(gpt2_in_fp16_with_a_loss_scale) {
  check_group(tiny_gpt2, fp16 + degrees(2, 3, per_micro), 1, 1);
  check_group(tiny_gpt2_with_dropout, fp16 + degrees(3, 1, "auto"), 3, 1);
}

BOOST_AUTO_TEST_CASE(wider_types_of_communication_and_accumulation_leave_the_stages_alike) {
  const settings wide = bf16 + settings{"communication_data_type=fp32", "data_types.grad_accum_dtype=fp32"};
  check_group(tiny_llama, wide + degrees(2, 3, per_step), 0, 1);
  check_group(tiny_gpt2, wide + degrees(2, 3, per_micro), 0, 1);
  check_group(tiny_gpt2, wide + degrees(3, 1, "auto"), 0, 1);
}

BOOST_AUTO_TEST_SUITE_END()
