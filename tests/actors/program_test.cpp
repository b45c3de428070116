// A plan's dependencies in the form that lanes count, and the counting.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/actors/ranks.hpp"
#include "tests/plan/pipeline_samples.hpp"

using namespace troupe;
using namespace troupe::actors;

namespace {

std::shared_ptr<const program> program_of(uint32_t ranks, uint32_t stage, uint32_t accumulation) {
  return std::make_shared<const program>(small_plans(ranks, stage, accumulation).front());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(program)

BOOST_AUTO_TEST_CASE(every_edge_that_is_told_is_counted_on_both_ends) {
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    const auto p = program_of(2, stage, 2);
    std::vector<uint32_t> counted(p->plan->instructions.size(), 0);
    for (const auto& x : p->plan->instructions) {
      BOOST_TEST(p->plan->lanes[static_cast<size_t>(x.lane)][p->position[x.id]] == x.id);
      std::vector<seat> told;
      for (uint32_t d : p->dependents[x.id]) {
        const auto& waiter = p->plan->instructions[d];
        BOOST_TEST((std::count(waiter.after.begin(), waiter.after.end(), x.id) == 1));
        ++counted[d];
        if (waiter.lane != x.lane) told.push_back(static_cast<seat>(waiter.lane));
      }
      std::ranges::sort(told);
      told.erase(std::unique(told.begin(), told.end()), told.end());
      auto waiting = p->seats_waiting[x.id];
      std::ranges::sort(waiting);
      BOOST_TEST(waiting == told, boost::test_tools::per_element());
      if (x.sequence != plan::none) BOOST_TEST(p->collectives[x.communicator][x.sequence] == x.id);
    }
    BOOST_TEST(counted == p->num_dependencies, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(an_edge_is_left_out_only_where_its_lane_knows_by_another) {
  size_t left_out = 0;
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    const auto p = program_of(2, stage, 2);
    const auto& all = p->plan->instructions;
    const auto tells = [&](uint32_t from, uint32_t to) {
      const auto& d = p->dependents[from];
      return std::find(d.begin(), d.end(), to) != d.end();
    };
    for (const auto& x : all)
      for (uint32_t on : x.after) {
        if (tells(on, x.id)) continue;
        ++left_out;
        // Its end follows from what comes later in its lane, which does one instruction at a time.
        BOOST_TEST((all[on].lane == plan::lane::compute || all[on].lane == plan::lane::shard));
        if (all[on].lane == x.lane) continue;
        const auto& sooner = p->plan->lanes[static_cast<size_t>(x.lane)];
        const auto& later = p->plan->lanes[static_cast<size_t>(all[on].lane)];
        bool known = false;
        for (uint32_t i = 0; i <= p->position[x.id]; ++i)
          for (uint32_t j = p->position[on] + 1; j < later.size(); ++j) known |= tells(later[j], sooner[i]);
        for (uint32_t i = 0; i < p->position[x.id]; ++i) known |= tells(on, sooner[i]);
        BOOST_TEST(known, p->plan->describe(x.id) << " has to hear of " << p->plan->describe(on));
      }
  }
  BOOST_TEST(left_out > 0U);
}

BOOST_AUTO_TEST_CASE(a_lane_starts_nothing_beyond_its_window) {
  const auto p = program_of(1, 0, 3);
  sequencer s;
  s.begin(p, static_cast<seat>(plan::lane::control));
  BOOST_TEST(s.size() == 3U);
  BOOST_TEST(!s.next().has_value());
  s.extend(2);
  BOOST_TEST(s.next().value() == p->plan->lanes[0][0]);
  BOOST_TEST(s.next().value() == p->plan->lanes[0][1]);
  BOOST_TEST(!s.next().has_value());
  s.extend(1);  // a window never shrinks
  BOOST_TEST(!s.next().has_value());
  s.extend(100);
  BOOST_TEST(s.next().value() == p->plan->lanes[0][2]);
  BOOST_TEST(!s.all_ended());
}

BOOST_AUTO_TEST_CASE(an_instruction_starts_when_its_last_dependency_has_ended) {
  const auto p = program_of(2, 3, 1);
  const auto& compute = p->plan->lanes[static_cast<size_t>(plan::lane::compute)];
  sequencer s;
  s.begin(p, static_cast<seat>(plan::lane::compute));
  s.extend(s.size());
  const auto& first = p->plan->instructions[compute.front()];
  BOOST_REQUIRE(p->num_dependencies[first.id] > 0U);
  for (uint32_t on : first.after) {
    BOOST_TEST(!s.next().has_value());
    s.ended(on);
  }
  BOOST_TEST(s.next().value() == first.id);
  BOOST_TEST(s.num_ended() == 0U);  // the instruction that ended was another lane's
}

BOOST_AUTO_TEST_CASE(lanes_that_tell_each_other_reach_the_end_of_every_plan) {
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    const auto p = program_of(1, stage, 2);
    sequencer lanes[plan::num_lanes];
    for (uint32_t l = 0; l < plan::num_lanes; ++l) {
      lanes[l].begin(p, l);
      lanes[l].extend(lanes[l].size());
    }
    uint64_t ended = 0;
    for (bool any = true; any;) {
      any = false;
      for (auto& lane : lanes)
        while (const auto id = lane.next()) {
          any = true;
          ++ended;
          for (auto& other : lanes) other.ended(*id);
        }
    }
    BOOST_TEST(ended == p->plan->instructions.size());
    for (const auto& lane : lanes) BOOST_TEST(lane.all_ended());
  }
}

BOOST_AUTO_TEST_CASE(stages_of_a_rank_take_turns_in_the_order_of_its_compute_lane) {
  for (const char* schedule : {"interleaved", "zb_v"}) {
    const auto plans = plan::plans_of(plan::chain_table(std::vector<uint64_t>(6, 3000)),
                                      plan::pipeline_options(schedule, 2, 2));
    const auto p = std::make_shared<const actors::program>(plans.front());
    const auto& compute = p->plan->lanes[static_cast<size_t>(plan::lane::compute)];
    BOOST_TEST(p->orders.size() == plan::num_lanes + 1U);
    BOOST_TEST(p->orders.back().size() + p->orders[static_cast<size_t>(plan::lane::compute)].size() == compute.size());
    std::vector<sequencer> stages(2);
    stages[0].begin(p, static_cast<seat>(plan::lane::compute));
    stages[1].begin(p, plan::num_lanes);
    for (auto& s : stages) s.extend(s.size());
    for (const auto& x : p->plan->instructions)  // what other lanes do is over
      if (x.lane != plan::lane::compute)
        for (auto& s : stages) s.ended(x.id);
    for (const uint32_t id : compute) {
      const bool second = p->seat_of[id] == plan::num_lanes;
      BOOST_TEST(!stages[second ? 0 : 1].next().has_value());
      BOOST_TEST(stages[second ? 1 : 0].next().value() == id);
      for (auto& s : stages) s.ended(id);
      const uint32_t unit = p->plan->instructions[id].subject;
      if (p->plan->instructions[id].kind == plan::kind::forward)
        BOOST_TEST(second == (p->plan->layout->stage_of_unit[unit] >= 2));
    }
    BOOST_TEST((stages[0].all_ended() && stages[1].all_ended()));
  }
}

BOOST_AUTO_TEST_CASE(a_second_run_begins_at_the_beginning) {
  const auto p = program_of(1, 0, 2);
  sequencer s;
  for (int run = 0; run < 2; ++run) {
    s.begin(p, static_cast<seat>(plan::lane::control));
    BOOST_TEST(s.num_ended() == 0U);
    BOOST_TEST(!s.next().has_value());
    s.extend(s.size());
    while (const auto id = s.next()) s.ended(*id);
    BOOST_TEST(s.all_ended());
  }
}

BOOST_AUTO_TEST_SUITE_END()
