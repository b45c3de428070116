// Tests groups of data ranks that each hold all states: the sharding within a group changes no bit, and all replicas
// are equal. Gradients are summed over the whole data axis, in rank order.
#include <fmt/format.h>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(groups)

using namespace troupe;
using namespace troupe::tests;

namespace {

const std::string zero = "zero_optimization.";
settings stage(int n) { return {fmt::format("{}stage={}", zero, n)}; }
settings ranks(int data) { return {fmt::format("parallel.data={}", data)}; }
settings groups_of(int ranks) { return {fmt::format("parallel.shard={}", ranks)}; }
const settings small_pieces = {zero + "reduce_bucket_size=8192", zero + "sub_group_size=4096",
                               zero + "allgather_bucket_size=9000", zero + "stage3_param_persistence_threshold=100",
                               zero + "stage3_max_reuse_distance=0"};
const settings bf16 = {"bf16.enabled=true"};
settings twice(const std::string& order) { return {"gradient_accumulation_steps=2", "gradient_order=" + order}; }

// Compares runs whose data ranks form several groups with a run with the same data degree in one group.
/// Returns the number of steps of a run; fp16 needs more, because the first ones are skipped.
uint64_t steps_of(const settings& set) { return text_of(set).find("fp16") == std::string::npos ? 4 : 6; }

void check_groups(const small_job& job, const settings& common, int data, const std::vector<int>& shards,
                  int first_stage = 1) {
  const uint64_t steps = steps_of(common);
  for (int at = first_stage; at <= 3; ++at) {
    const auto reference = train(job, common + ranks(data) + stage(at), steps);
    BOOST_TEST(reference.losses.front() != reference.losses.back());
    for (const int n : shards) BOOST_TEST_CONTEXT(text_of(common + ranks(data) + stage(at) + groups_of(n))) {
        check_same(train(job, common + ranks(data) + stage(at) + groups_of(n), steps), reference);
        check_same(train(job, common + ranks(data) + stage(at) + groups_of(n) + small_pieces, steps), reference);
      }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_groups_of_two_leave_the_bits_of_four_ranks) {
  const small_job gpt2(tiny_gpt2_with_dropout), llama(tiny_llama);
  check_groups(gpt2, {}, 4, {1, 2, 4});
  check_groups(gpt2, bf16 + twice("per_micro_batch"), 4, {2});
  check_groups(llama, twice("per_step"), 4, {2});
}

BOOST_AUTO_TEST_CASE(optimizers_of_whole_parameters_leave_the_bits_too) {
  const small_job job(tiny_gpt2);
  check_groups(job, {"optimizer.type=Lamb"}, 4, {2});
  check_groups(job, {"optimizer.type=Muon", "optimizer.params.muon_lr=0.02", "optimizer.params.adam_lr=0.003"}, 4, {2});
}

BOOST_AUTO_TEST_CASE(skipped_steps_and_updates_before_the_vote_leave_the_bits_too) {
  const small_job job(tiny_gpt2);
  const settings fp16 = {"fp16.enabled=true", "fp16.initial_scale_power=24", "fp16.loss_scale_window=2",
                         "fp16.hysteresis=1"};
  check_groups(job, fp16, 4, {2});
  const settings ahead = {"gradient_clipping=0", zero + "offload_optimizer.device=cpu",
                          zero + "offload_optimizer.super_offload=true"};
  check_groups(job, ahead + fp16, 4, {2}, 3);
  check_groups(job, settings{"cluster.early_updates=true", "gradient_clipping=1.5"} + fp16, 4, {2}, 3);
}

BOOST_AUTO_TEST_CASE(deepspeeds_key_is_that_of_stage_3) {
  const small_job job(tiny_gpt2);
  const auto own = job.open(ranks(4) + stage(3) + groups_of(2));
  const auto theirs = job.open(ranks(4) + stage(3) + settings{zero + "mics_shard_size=2"});
  BOOST_TEST((own->training_plan(0).options().mesh == theirs->training_plan(0).options().mesh));
  BOOST_TEST(own->training_plan(0).options().replicas() == 2U);
}

BOOST_AUTO_TEST_CASE(second_copies_of_parameters_leave_the_bits) {
  const settings often = {zero + "stage3_param_persistence_threshold=100", zero + "stage3_max_reuse_distance=0",
                          zero + "stage3_prefetch_bucket_size=20000"};
  const settings near = {zero + "zero_hpz_partition_size=2"};
  for (const auto& set : {settings{}, bf16 + twice("per_micro_batch"), twice("per_step"),
                          settings{"activation_checkpointing.enabled=true"}})
    BOOST_TEST_CONTEXT(text_of(set)) {
      const small_job job(tiny_gpt2_with_dropout);
      const uint64_t steps = steps_of(set);
      const auto reference = train(job, set + ranks(4) + stage(3) + often, steps);
      auto s = job.open(set + ranks(4) + stage(3) + often + near);
      const auto got = result_of(*s, steps);
      check_same(got, reference);
      BOOST_TEST(got.gathers == reference.gathers);
      // The second copy is sharded over two ranks, so it is half of the parameters; the primary shard is a quarter.
      BOOST_TEST(got.memory.near_copies > reference.memory.parameters);
      uint64_t from_neighbours = 0;
      for (const auto& x : s->training_plan(0).instructions)
        from_neighbours += x.kind == plan::kind::gather && x.near ? 1 : 0;
      BOOST_TEST(from_neighbours > 0U);
    }
}

BOOST_AUTO_TEST_CASE(replicas_hold_the_same_slices) {
  const small_job job(tiny_gpt2);
  for (int at = 1; at <= 3; ++at) BOOST_TEST_CONTEXT("stage " << at) {
      const auto s = job.open(ranks(4) + stage(at) + groups_of(2));
      for (uint64_t i = 0; i < 3; ++i) step_of(*s);
      for (uint32_t r = 0; r < 2; ++r) {
        BOOST_TEST_INFO_SCOPE("r " << r);
        const auto &mine = s->training_plan(r), &other = s->training_plan(r + 2);
        for (uint32_t q = 0; q < s->table().parameters.size(); ++q)
          BOOST_TEST((mine.own_states(q) == other.own_states(q)));
        BOOST_TEST((mine.memory.moments == other.memory.moments));
      }
      // The reference is one group of four, in which a rank has half as many states.
      const auto whole = job.open(ranks(4) + stage(at));
      const uint64_t cut = whole->memory()[0].resident.moments, group = s->memory()[0].resident.moments;
      BOOST_TEST(group > cut * 3 / 2);
      BOOST_TEST(group < cut * 5 / 2);
    }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_one_grouping_loads_in_another) {
  const small_job job(tiny_gpt2);
  const std::vector<settings> cuts = {ranks(4) + stage(3) + groups_of(2), ranks(4) + stage(2) + groups_of(1),
                                      ranks(4) + stage(1), ranks(4) + stage(3) + groups_of(2) + bf16};
  for (size_t from = 0; from < cuts.size(); ++from) {
    const std::string place = fmt::format("saved_{}", from);
    auto saves = job.open(cuts[from]);
    for (uint64_t i = 0; i < 2; ++i) step_of(*saves);
    actors::save_request request;
    request.root = job.folder().path() / place;
    const auto saved = saves->save(request);
    BOOST_TEST_REQUIRE(saved.has_value(), (saved ? "" : saved.error().text));
    const auto next = step_of(*saves);
    for (size_t to = 0; to < cuts.size(); ++to) BOOST_TEST_CONTEXT("from " << from << " to " << to) {
        auto loads = job.open(cuts[to]);
        const auto loaded = loads->load(*saved, {});
        BOOST_TEST_REQUIRE(loaded.has_value(), (loaded ? "" : loaded.error().text));
        const bool same_types = (from == 3) == (to == 3);
        if (same_types) BOOST_TEST(step_of(*loads).loss == next.loss);
      }
  }
}

BOOST_AUTO_TEST_SUITE_END()
