#include "plan/check/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "plan/check/rules.hpp"
#include "tests/check_ok.hpp"
#include "tests/plan/reorder.hpp"
#include "tests/plan/samples.hpp"
#include "tests/processor_time.hpp"

BOOST_AUTO_TEST_SUITE(check)

using namespace troupe::plan;
using troupe::tests::check_failed;

namespace {

void passes(const shared_table& table, const plan_options& o) {
  const auto plans = plans_of(table, o);
  const auto proved = troupe::plan::check(plans);
  BOOST_TEST_REQUIRE(proved.has_value(), "ranks " << o.ranks() << ", stage " << o.stage << ", accumulation "
                                                  << o.accumulation << ": " << (proved ? "" : proved.error().text));
}

/// Changes one rank's plan and expects the checker's error to contain `what`.
void refused(const shared_table& table, const plan_options& o, auto change, const std::string& what) {
  auto plans = plans_of(table, o);
  auto broken = std::make_shared<rank_plan>(*plans.back());
  change(*broken);
  plans.back() = broken;
  check_failed(troupe::plan::check(plans), what);
}

uint32_t first_of(const rank_plan& p, kind k) {
  for (const auto& x : p.instructions)
    if (x.kind == k) return x.id;
  return none;
}

double seconds_of(const shared_plans& plans) {
  const double begin = troupe::tests::processor_seconds();
  const auto proved = troupe::plan::check(plans);
  BOOST_REQUIRE_MESSAGE(proved.has_value(), (proved ? "" : proved.error().text));
  return troupe::tests::processor_seconds() - begin;
}

}  // namespace

// The loops combine all ZeRO stages, rank counts and accumulation settings with the settings that depend on them.
BOOST_AUTO_TEST_CASE(every_plan_of_a_large_grid_is_proved) {
  for (const bool tied : {false, true})
    for (uint32_t ranks = 1; ranks <= 4; ++ranks)
      for (uint32_t stage = 0; stage <= 3; ++stage)
        for (const uint32_t accumulation : {1U, 3U})
          for (const bool micro_first : {false, true})
            for (const bool overlap : {false, true})
              for (const uint64_t bucket : {1ULL, 20'000ULL, 500'000'000ULL})
                for (const mode m : {mode::train, mode::evaluate, mode::generate}) {
                  plan_options o = small_options(ranks, stage, accumulation);
                  o.mode = m;
                  o.gradients.sum_micro_first = micro_first;
                  o.overlap = overlap;
                  o.gradients.reduce_bucket = o.updates.allgather_bucket = o.updates.sub_group = bucket;
                  passes(gpt_table(2, 64, 256, tied), o);
                }
}

BOOST_AUTO_TEST_CASE(every_stage_3_plan_of_a_large_grid_is_proved) {
  for (const bool tied : {false, true})
    for (const uint32_t ranks : {1U, 2U, 3U})
      for (const uint32_t accumulation : {1U, 3U})
        for (const uint64_t prefetch : {0ULL, 20'000ULL, 1'000'000'000ULL})
          for (const uint64_t live : {0ULL, 60'000ULL, 1'000'000'000ULL})
            for (const uint64_t reuse : {0ULL, 30'000ULL, 1'000'000'000ULL})
              for (const uint64_t persistence : {0ULL, 200ULL, 1'000'000ULL})
                for (const bool recompute : {false, true}) {
                  plan_options o = small_options(ranks, 3, accumulation);
                  o.gathering.prefetch_bucket = prefetch;
                  o.gathering.max_live = live;
                  o.gathering.max_reuse_distance = reuse;
                  o.gathering.persistence_threshold = persistence;
                  o.recompute = recompute;
                  passes(gpt_table(2, 64, 256, tied), o);
                }
}

BOOST_AUTO_TEST_CASE(plans_of_random_models_and_options_are_proved) {
  uint32_t proved = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto table = random_table(random);
      const auto options = random_options(*table, random);
      if (!make_layout(table, options)) continue;  // the model has fewer blocks than there are ranks
      passes(table, options);
      ++proved;
    }
  BOOST_TEST(proved > 1000U);
}

BOOST_AUTO_TEST_CASE(groups_of_ranks_are_proved_at_every_stage) {
  const std::pair<uint32_t, uint32_t> groups[] = {{2, 1}, {2, 2}, {3, 2}, {2, 3}};
  for (const bool tied : {false, true})
    for (const auto& [replicas, shards] : groups)
      for (uint32_t stage = 0; stage <= 3; ++stage)
        for (const uint32_t accumulation : {1U, 3U})
          for (const bool micro_first : {false, true})
            for (const bool scatter : {false, true})
              for (const mode m : {mode::train, mode::evaluate, mode::save}) {
                plan_options o = small_options(replicas * shards, stage, accumulation);
                o.mesh = in_groups(replicas, shards);
                o.mode = m;
                o.saving.on = m != mode::evaluate;
                o.gradients.sum_micro_first = micro_first;
                o.gradients.reduce_scatter = scatter;
                passes(gpt_table(2, 64, 256, tied), o);
              }
}

BOOST_AUTO_TEST_CASE(every_element_is_saved_once_whichever_ranks_write) {
  const std::pair<uint32_t, uint32_t> groups[] = {{1, 4}, {2, 2}, {4, 2}};
  for (const auto unit : {writer_unit::single, writer_unit::replica, writer_unit::socket, writer_unit::machine})
    for (const auto& [replicas, shards] : groups)
      for (uint32_t stage = 0; stage <= 3; ++stage)
        for (const uint32_t machines : {1U, 2U, 4U}) {
          plan_options o = small_options(replicas * shards, stage);
          o.mesh = in_groups(replicas, shards);
          o.saving = {.on = true, .writers = unit, .machines = machines};
          passes(gpt_table(2, 64, 256, false), o);
        }
  const auto writers = [](writer_unit unit, uint32_t machines) {
    plan_options o = small_options(4, 0);
    o.saving = {.on = true, .writers = unit, .machines = machines};
    std::vector<uint32_t> out;
    for (const auto& p : plans_of(gpt_table(2, 64, 256, false), o))
      if (!p->snapshots.empty()) out.push_back(p->rank);
    return out;
  };
  BOOST_TEST((writers(writer_unit::replica, 1) == std::vector<uint32_t>{0, 1, 2, 3}));
  BOOST_TEST((writers(writer_unit::socket, 1) == std::vector<uint32_t>{0, 2}));
  BOOST_TEST((writers(writer_unit::machine, 2) == std::vector<uint32_t>{0, 2}));
  BOOST_TEST((writers(writer_unit::machine, 1) == std::vector<uint32_t>{0}));
}

BOOST_AUTO_TEST_CASE(groups_of_ranks_are_proved_with_every_tier_and_optimizer) {
  uint32_t proved = 0, replicated = 0;
  for (uint64_t seed = 5000; seed < 5600; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto table = random_table(random);
      auto options = random_options(*table, random);
      options.mesh = in_groups(2, static_cast<uint32_t>(1 + random() % 3));
      if (!make_layout(table, options)) continue;
      passes(table, options);
      ++proved;
      replicated += options.replicas() > 1 ? 1 : 0;
    }
  BOOST_TEST(proved > 300U);
  BOOST_TEST(replicated > 200U);
}

BOOST_AUTO_TEST_CASE(second_copies_of_parameters_are_proved) {
  const std::pair<uint32_t, uint32_t> groups[] = {{1, 4}, {2, 4}, {1, 6}};
  for (const bool tied : {false, true})
    for (const auto& [replicas, shards] : groups)
      for (const uint32_t accumulation : {1U, 3U})
        for (const uint64_t prefetch : {0ULL, 20'000ULL, 1'000'000'000ULL})
          for (const uint64_t reuse : {0ULL, 30'000ULL, 1'000'000'000ULL})
            for (const uint64_t persistence : {0ULL, 200ULL})
              for (const bool recompute : {false, true}) {
                plan_options o = small_options(replicas * shards, 3, accumulation);
                o.mesh = in_groups(replicas, shards);
                o.gathering.near = 2;
                o.gathering.prefetch_bucket = prefetch;
                o.gathering.max_reuse_distance = reuse;
                o.gathering.persistence_threshold = persistence;
                o.recompute = recompute;
                passes(gpt_table(2, 64, 256, tied), o);
              }
}

BOOST_AUTO_TEST_CASE(second_copies_of_random_models_are_proved) {
  uint32_t proved = 0;
  for (uint64_t seed = 7000; seed < 7300; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto table = random_table(random);
      auto options = random_options(*table, random);
      options.stage = 3;
      options.mesh = in_groups(static_cast<uint32_t>(1 + random() % 2), 4);
      options.gathering.near = 2;
      if (!make_layout(table, options)) continue;
      passes(table, options);
      ++proved;
    }
  BOOST_TEST(proved > 50U);
}

BOOST_AUTO_TEST_CASE(a_unit_is_gathered_from_all_shards_once_a_step) {
  auto o = small_options(4, 3, 3);
  o.gathering.near = 2;
  o.gathering.max_reuse_distance = o.gathering.prefetch_bucket = 0;
  const auto plans = plans_of(gpt_table(2, 64, 256, false), o);
  for (const auto& p : plans) {
    const auto count = [&](kind k, bool near) {
      return std::ranges::count_if(p->instructions, [&](const auto& x) { return x.kind == k && x.near == near; });
    };
    BOOST_TEST(count(kind::gather, false) == 4);
    BOOST_TEST(count(kind::gather, true) > 8);
    BOOST_TEST(count(kind::release, true) == 4);
  }
}

BOOST_AUTO_TEST_CASE(a_second_copy_that_is_read_too_early_or_made_twice_is_refused) {
  const auto table = gpt_table(2, 64, 256, false);
  auto o = small_options(4, 3, 2);
  o.gathering.near = 2;
  const auto near_one = [](const rank_plan& p, kind k) -> uint32_t {
    for (const auto& x : p.instructions)
      if (x.kind == k && x.near) return x.id;
    return none;
  };
  // A gather that is marked as reading all shards needs a communicator of more ranks than its own.
  refused(
      table, o, [&](rank_plan& p) { p.instructions[near_one(p, kind::gather)].near = false; },
      "has a communicator that its rank does not belong to");
  refused(
      table, o, [&](rank_plan& p) { p.instructions[near_one(p, kind::release)].near = false; },
      "reads a second copy that nothing makes");
  refused(
      table, o,
      [&](rank_plan& p) {
        const auto& first = p.instructions[near_one(p, kind::release)];
        for (auto& x : p.instructions)
          if (x.kind == kind::release && x.subject == first.subject && !x.near) {
            x.near = true;
            x.moved_bytes = first.moved_bytes;
            return;
          }
      },
      "keeps again what");
  refused(
      table, o, [&](rank_plan& p) { p.instructions[near_one(p, kind::release)].moved_bytes += 4; },
      "keeps the wrong number of bytes");
}

// Checks the correct list of pieces first, then the same list with one error.
BOOST_AUTO_TEST_CASE(a_vote_that_counts_a_replica_twice_is_refused) {
  auto o = small_options(4, 3);
  o.mesh = in_groups(2, 2);
  const auto l = layout_of(gpt_table(2, 64, 256, true), o);
  const auto sound = collective_pieces(*l).vote();
  BOOST_TEST_REQUIRE(rules::vote(*l, sound).has_value());
  auto twice = sound;
  twice.push_back(sound.front());
  twice.back().owner += 2;  // names the same block on the other replica
  const auto counted = rules::vote(*l, twice);
  BOOST_TEST_REQUIRE(!counted.has_value());
  BOOST_TEST(counted.error().text.find("do not cover each square sum, loss and range exactly once") !=
             std::string::npos);
  auto others = sound;
  std::swap(others.front().owner, others.back().owner);
  const auto false_witness = rules::vote(*l, others);
  BOOST_TEST_REQUIRE(!false_witness.has_value());
  BOOST_TEST(false_witness.error().text.find("votes with square sums, losses or ranges of others") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_reduction_that_leaves_out_a_replicas_owner_is_refused) {
  for (const uint32_t stage : {1U, 2U, 3U})
    for (const bool micro_first : {false, true}) BOOST_TEST_CONTEXT("stage " << stage << ", " << micro_first) {
        auto o = small_options(4, stage, 2);
        o.mesh = in_groups(2, 2);
        o.gradients.sum_micro_first = micro_first;
        const auto l = layout_of(gpt_table(2, 64, 256, true), o);
        const collective_pieces places(*l);
        const auto sound = places.reduce(0);
        const auto refusal = [&](const std::vector<moved_piece>& moved) {
          const auto verdict = rules::reduction(*l, places, 0, moved);
          return verdict ? std::string("passed") : verdict.error().text;
        };
        BOOST_TEST(refusal(sound) == "passed");
        BOOST_TEST_REQUIRE(sound.size() > 4U);
        BOOST_TEST(sound[0].from == sound[1].from);
        auto without = sound;
        without.erase(without.begin() + 1);
        BOOST_TEST(refusal(without).find("exactly once for each replica") != std::string::npos, refusal(without));
        auto same = sound;
        same[1].owner = same[0].owner;
        BOOST_TEST(refusal(same).find("exactly once for each replica") != std::string::npos, refusal(same));
        auto apart = sound;
        std::swap(apart[1], apart[2]);
        BOOST_TEST(refusal(apart).find("do not stand side by side") != std::string::npos, refusal(apart));
      }
}

BOOST_AUTO_TEST_CASE(gradients_reduced_within_one_replica_are_refused) {
  auto o = small_options(4, 3);
  o.mesh = in_groups(2, 2);
  auto plans = plans_of(gpt_table(2, 64, 256, true), o);
  const uint32_t gathers = plans[0]->instructions[first_of(*plans[0], kind::gather)].communicator;
  for (auto& p : plans) {
    auto changed = std::make_shared<rank_plan>(*p);
    const uint32_t own = changed->instructions[first_of(*p, kind::gather)].communicator;
    BOOST_TEST((own == gathers) == (p->rank < 2));
    std::ranges::fill(changed->num_collectives, 0U);
    for (const uint32_t id : changed->lanes[static_cast<size_t>(lane::fabric)]) {
      auto& x = changed->instructions[id];
      if (x.kind == kind::reduce) x.communicator = own;
      x.sequence = changed->num_collectives[x.communicator]++;
    }
    p = changed;
  }
  check_failed(troupe::plan::check(plans), "has a communicator that its rank does not belong to");
}

BOOST_AUTO_TEST_CASE(twelve_blocks_on_four_ranks_are_proved_well_under_100_ms) {
  auto o = small_options(4, 3, 4);
  o.gradients.reduce_bucket = 1;
  const auto plans = plans_of(gpt_table(12, 64, 256, true), o);
  BOOST_TEST(plans[0]->instructions.size() > 1000U);
  double least = 1;
  for (int i = 0; i < 5; ++i) least = std::min(least, seconds_of(plans));
  BOOST_TEST(least < 0.1);
}

BOOST_AUTO_TEST_CASE(a_hundred_layers_are_written_and_proved_in_reasonable_time) {
  const double begin = troupe::tests::processor_seconds();
  const auto plans = plans_of(gpt_table(100, 64, 256, true), small_options(8, 3, 4));
  BOOST_TEST(troupe::tests::processor_seconds() - begin < 2.0);
  BOOST_TEST(seconds_of(plans) < 2.0);
}

BOOST_AUTO_TEST_CASE(a_collective_that_differs_on_one_rank_is_named_on_both) {
  refused(
      gpt_table(1, 64, 256, false), small_options(2, 3),
      [](rank_plan& p) { p.instructions[first_of(p, kind::gather)].use = use::backward; },
      "the plan of rank 1: gather unit 0, backward (instruction 1) is collective 0, where rank 0 has gather unit 0, "
      "forward");
}

BOOST_AUTO_TEST_CASE(a_use_that_does_not_wait_for_its_gather_is_named) {
  refused(
      gpt_table(1, 64, 256, false), small_options(2, 3),
      [](rank_plan& p) {
        auto& after = p.instructions[first_of(p, kind::forward)].after;
        std::erase(after, first_of(p, kind::gather));
      },
      "forward unit 0 (instruction 3) does not wait for gather unit 0, forward (instruction 1), which brings its "
      "parameters");
}

BOOST_AUTO_TEST_CASE(a_slot_taken_before_its_last_reader_is_named) {
  refused(
      gpt_table(2, 64, 256, false), small_options(2, 2),
      [](rank_plan& p) {
        for (auto& x : p.instructions)
          if (x.kind == kind::backward)
            std::erase_if(x.after, [&](uint32_t on) { return p.instructions[on].kind == kind::reduce; });
      },
      "of the pool of buckets without waiting for reduce bucket");
}

// Rank 1 owns no elements that need norms. Its `measure` would move no bytes before the vote (the all-gather of
// gradient square sums) has ended, because rank 0's `measure` waits for the vote. But rank 1 evaluates whether the
// step is skipped when it starts the collective, which is too early.
BOOST_AUTO_TEST_CASE(a_collective_that_the_vote_holds_back_on_another_rank_alone_is_named) {
  auto o = small_options(2, 2);
  o.updates.rules = {{2, update_need::parameter_norms}, {2, update_need::elements}};
  refused(
      chain_table({1000, 5000}), o,
      [](rank_plan& p) { std::erase(p.instructions[first_of(p, kind::measure)].after, first_of(p, kind::vote)); },
      "is guarded by a vote that it does not wait for");
}

BOOST_AUTO_TEST_CASE(an_update_that_an_overflow_does_not_stop_is_named) {
  refused(
      gpt_table(1, 64, 256, false), small_options(2, 1),
      [](rank_plan& p) { p.instructions[first_of(p, kind::update)].guard = guard::always; },
      "runs even if the vote finds an overflow");
}

BOOST_AUTO_TEST_CASE(an_operation_has_the_fields_of_its_kind_and_no_other) {
  const auto says = [](kind k, const std::string& what, auto change) {
    const auto change_first = [&](rank_plan& p) { change(p.instructions[first_of(p, k)]); };
    refused(chain_table({4096, 4096}), small_options(2, 3), change_first, "a " + std::string(name_of(k)) + ", " + what);
  };
  const std::string other = "has a field that its kind does not have: ";
  says(kind::forward, other + "slots.moved", [](instruction& x) { x.slots.moved = 0; });
  says(kind::forward, other + "piece", [](instruction& x) { x.piece = 1; });
  says(kind::forward, "has no segment", [](instruction& x) { x.segment = none; });
  says(kind::gather, "has no slots.parameters", [](instruction& x) { x.slots.parameters = none; });
  says(kind::gather, other + "segment", [](instruction& x) { x.segment = 0; });
  says(kind::norm, other + "near", [](instruction& x) { x.near = true; });
  says(kind::vote, other + "repeats: redo", [](instruction& x) { x.repeats = repetition::redo; });
  says(kind::update, other + "what", [](instruction& x) { x.what = swapped::states; });
  says(kind::update, other + "slots.staging", [](instruction& x) { x.slots.staging = 0; });
}

// If all micro-batches are reduced into one sum, the reduction of a later micro-batch must wait for the reduction of
// an earlier one, even if both are on one lane.
BOOST_AUTO_TEST_CASE(reductions_that_add_to_one_sum_wait_for_each_other) {
  refused(
      chain_table({4096, 4096}), small_options(1, 2, 2),
      [](rank_plan& p) {
        for (auto& x : p.instructions)
          if (x.kind == kind::reduce && x.micro == 1)
            std::erase_if(x.after, [&](uint32_t on) { return p.instructions[on].kind == kind::reduce; });
      },
      "to whose sum it adds");
}

BOOST_AUTO_TEST_CASE(a_micro_batch_begins_only_when_the_one_before_is_done) {
  // The plan's instructions are load, forward, backward, load, forward, backward, and then the rest.
  refused(
      chain_table({4096}), small_options(1, 0, 2),
      [](rank_plan& p) {
        std::vector<uint32_t> order = {0, 1, 3, 4, 2};
        for (uint32_t id = 5; id < p.instructions.size(); ++id) order.push_back(id);
        reorder(p, order);
      },
      "forward unit 0, micro 1 (instruction 3) begins before there is room for its activations: it says that at most 1 "
      "micro-batches are in flight");
}

BOOST_AUTO_TEST_CASE(an_unguarded_instruction_may_not_wait_for_one_that_a_skipped_step_leaves_out) {
  const auto plans = plans_of(chain_table({4096}), small_options(1, 0));
  auto p = std::make_shared<rank_plan>(*plans[0]);
  instruction late = p->instructions[p->lanes[static_cast<size_t>(lane::compute)].back()];
  late.id = static_cast<uint32_t>(p->instructions.size());
  late.after = {first_of(*p, kind::update)};
  p->lanes[static_cast<size_t>(lane::compute)].push_back(late.id);
  p->instructions.push_back(late);
  const shared_plans changed{p};
  auto order = happens_before::build(changed, branch::not_skipped);
  auto roll = rules::call_roll(*plans[0], branch::not_skipped);
  BOOST_REQUIRE((order.has_value() && roll.has_value()));
  const rules::world w{changed, branch::not_skipped, *order, {*roll}, {}};
  check_failed(rules::guards(w, 0), "always runs but waits for update sub-group 0");
}

// A plan may come from an untrusted source, so the checker must validate its tables before it uses them for look-ups.
BOOST_AUTO_TEST_CASE(shared_tables_that_do_not_fit_together_are_refused_without_being_read) {
  const auto with_table = [](job_layout& l, auto change) {
    auto t = *l.table;
    change(t);
    l.table = std::make_shared<const troupe::core::model_table>(t);
  };
  const std::vector<std::function<void(job_layout&)>> changes = {
      [](job_layout& l) { l.table = nullptr; },
      [](job_layout& l) { l.table = std::make_shared<const troupe::core::model_table>(); },
      [&](job_layout& l) { with_table(l, [](auto& t) { t.units[0].parameters[0] = 99; }); },
      [&](job_layout& l) { with_table(l, [](auto& t) { t.units[1].segments[0].parameters[0] = 0; }); },
      [](job_layout& l) { l.options.accumulation = 0; },
      [](job_layout& l) { l.options.mesh = troupe::core::data_mesh(0); },
      [](job_layout& l) { l.options.stage = 4; },
      [](job_layout& l) { l.gather_sets.pop_back(); },
      [](job_layout& l) { l.persistent.clear(); },
      [](job_layout& l) { l.full_offset.clear(); },
      [](job_layout& l) { l.block_offset.clear(); },
      [](job_layout& l) { l.bucket_of.clear(); },
      [](job_layout& l) { l.bucket_of[0] = none; },
      [](job_layout& l) { l.gather_sets[0].parameters[0].parameter = 99; },
      [](job_layout& l) { l.partition = make_partition(*l.table, 3, uneven_blocks::to_least); },
      [](job_layout& l) { l.partition = make_partition({}, 2, uneven_blocks::to_least); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto layout = layout_of(chain_table({4096, 4096}), small_options(2, 3));
    auto broken = std::make_shared<job_layout>(*layout);
    changes[i](*broken);
    for (const size_t others : {0U, 1U}) {  // 0: changes one rank's plan only; 1: changes all plans
      auto plans = plans_of(layout);
      for (size_t r = others; r < 2; ++r) {
        auto p = std::make_shared<rank_plan>(*plans[r]);
        p->layout = broken;
        plans[r] = p;
      }
      BOOST_TEST(!troupe::plan::check(plans).has_value(), "change " << i << " of " << 2 - others << " plans passed");
    }
  }
}

BOOST_AUTO_TEST_CASE(tables_of_one_rank_that_do_not_fit_together_are_refused_without_being_read) {
  const std::vector<std::function<void(rank_plan&)>> changes = {
      [](rank_plan& p) { p.layout = nullptr; },
      [](rank_plan& p) { p.rank = 7; },
      [](rank_plan& p) { p.lanes.pop_back(); },
      [](rank_plan& p) { p.offsets.shard.clear(); },
      [](rank_plan& p) { p.offsets.state.pop_back(); },
      [](rank_plan& p) { p.moment_offset[0].clear(); },
      [](rank_plan& p) { p.bucket_buffer.clear(); },
      [](rank_plan& p) { p.bucket_buffer[0] = none; },
      [](rank_plan& p) { p.sub_groups[0].pieces[0].parameter = 99; },
      [](rank_plan& p) { p.buffers.clear(); },
      [](rank_plan& p) { p.buffers[0].last = none; },
      [](rank_plan& p) { p.instructions.clear(); },
      [](rank_plan& p) { p.instructions.pop_back(); },
      [](rank_plan& p) { p.instructions[3].id = 99; },
      [](rank_plan& p) { p.instructions[3].lane = lane::control; },
      [](rank_plan& p) { p.instructions[3].after.push_back(none); },
      [](rank_plan& p) { p.instructions[3].after.push_back(3); },
      [](rank_plan& p) { p.instructions[3].slots.parameters = 99; },
      [](rank_plan& p) { p.instructions[3].micro = 99; },
      [](rank_plan& p) { p.instructions[3].subject = 99; },
      [](rank_plan& p) { p.instructions[3].segment = 99; },
      [](rank_plan& p) { p.instructions[1].sequence = none; },
      [](rank_plan& p) { p.instructions[1].communicator = 1; },
      [](rank_plan& p) { p.lanes[1][0] = 999; },
      [](rank_plan& p) { p.lanes[1].pop_back(); },
      [](rank_plan& p) { p.lanes[1].push_back(p.lanes[2].back()), p.lanes[2].pop_back(); },
      [](rank_plan& p) { p.num_collectives[0] += 1; },
  };
  for (size_t i = 0; i < changes.size(); ++i)
    for (const size_t rank : {0U, 1U}) {
      auto plans = plans_of(chain_table({4096, 4096}), small_options(2, 3));
      auto broken = std::make_shared<rank_plan>(*plans[rank]);
      BOOST_REQUIRE((broken->instructions[3].kind == kind::forward && broken->instructions[1].lane == lane::fabric));
      changes[i](*broken);
      plans[rank] = broken;
      const auto proved = troupe::plan::check(plans);
      BOOST_TEST(!proved.has_value(), "change " << i << " of rank " << rank << " passed");
    }
}

BOOST_AUTO_TEST_CASE(memory_beyond_the_budget_names_the_largest_owner_and_both_figures) {
  auto o = small_options(2, 0);
  const auto table = gpt_table(2, 64, 256, false);
  const uint64_t needed = plans_of(table, o)[0]->memory.states();
  o.memory_budget_bytes = needed;
  passes(table, o);
  o.memory_budget_bytes = needed - 1;
  const auto proved = troupe::plan::check(plans_of(table, o));
  BOOST_REQUIRE(!proved.has_value());
  BOOST_TEST((proved.error().kind == troupe::core::error_kind::limit));
  for (const std::string& part :
       {fmt::format("{} bytes", needed), fmt::format("{} bytes", needed - 1), std::string("moments")})
    BOOST_TEST(proved.error().text.find(part) != std::string::npos, proved.error().text << " does not say " << part);
}

BOOST_AUTO_TEST_CASE(plans_that_are_not_all_ranks_of_one_step_are_refused) {
  auto plans = plans_of(chain_table({4096, 4096}), small_options(2, 1));
  std::swap(plans[0], plans[1]);
  BOOST_TEST(!troupe::plan::check(plans).has_value(), "out of order");
  auto o = small_options(2, 1);
  o.uneven = uneven_blocks::in_turn;
  plans = {plans[1], plans_of(chain_table({4096, 4096}), o)[1]};
  BOOST_TEST(!troupe::plan::check(plans).has_value(), "of two different steps");
  plans.pop_back();
  BOOST_TEST(!troupe::plan::check(plans).has_value());
  BOOST_TEST(!troupe::plan::check({}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
