// Tests a plan's dependencies in the form in which lanes count them, and the counting.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "tests/actors/ranks.hpp"

BOOST_AUTO_TEST_SUITE(program)

using namespace troupe;
using namespace troupe::actors;

namespace {

std::shared_ptr<const program> program_of(uint32_t ranks, uint32_t stage, uint32_t accumulation) {
  return std::make_shared<const program>(small_plans(ranks, stage, accumulation).front());
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_edge_that_is_told_is_counted_on_both_ends) {
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    const auto p = program_of(2, stage, 2);
    std::vector<uint32_t> counted(p->plan->instructions.size(), 0);
    for (const auto& x : p->plan->instructions) {
      BOOST_TEST(p->plan->lanes[static_cast<size_t>(x.lane)][p->position[x.id]] == x.id);
      BOOST_TEST(p->orders[p->seat[x.id]][p->place[x.id]] == x.id);
      std::set<uint32_t> seats;
      for (uint32_t d : p->dependents[x.id]) {
        BOOST_TEST_INFO_SCOPE("d " << d);
        const auto& waiter = p->plan->instructions[d];
        BOOST_TEST((std::count(waiter.after.begin(), waiter.after.end(), x.id) == 1));
        ++counted[d];
        if (p->seat[d] != p->seat[x.id]) seats.insert(p->seat[d]);
      }
      BOOST_TEST((std::set<uint32_t>(p->told[x.id].begin(), p->told[x.id].end()) == seats));
      BOOST_TEST(p->told[x.id].size() == seats.size());
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
        // The lane of the awaited instruction runs one instruction at a time, so the end of a later one in that lane
        // implies it.
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
  s.begin(p, plan::lane::control);
  BOOST_TEST(s.size() == 3U);
  BOOST_TEST(!s.next().has_value());
  s.extend(2);
  BOOST_TEST(s.next().value() == p->plan->lanes[0][0]);
  BOOST_TEST(s.next().value() == p->plan->lanes[0][1]);
  BOOST_TEST(!s.next().has_value());
  s.extend(1);  // the argument is smaller than the current window, which never shrinks
  BOOST_TEST(!s.next().has_value());
  s.extend(100);
  BOOST_TEST(s.next().value() == p->plan->lanes[0][2]);
  BOOST_TEST(!s.all_ended());
}

BOOST_AUTO_TEST_CASE(an_instruction_starts_when_its_last_dependency_has_ended) {
  const auto p = program_of(2, 3, 1);
  const auto& compute = p->plan->lanes[static_cast<size_t>(plan::lane::compute)];
  sequencer s;
  s.begin(p, plan::lane::compute);
  s.extend(s.size());
  const auto& first = p->plan->instructions[compute.front()];
  BOOST_REQUIRE(p->num_dependencies[first.id] > 0U);
  for (uint32_t on : first.after) {
    BOOST_TEST_INFO_SCOPE("on " << on);
    BOOST_TEST(!s.next().has_value());
    s.ended(on);
  }
  BOOST_TEST(s.next().value() == first.id);
  BOOST_TEST(s.num_ended() == 0U);  // the instruction that ended belongs to another lane and is not counted
}

BOOST_AUTO_TEST_CASE(lanes_that_tell_each_other_reach_the_end_of_every_plan) {
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    const auto p = program_of(1, stage, 2);
    sequencer lanes[plan::num_lanes];
    for (uint32_t l = 0; l < plan::num_lanes; ++l) {
      lanes[l].begin(p, static_cast<plan::lane>(l));
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

BOOST_AUTO_TEST_CASE(a_second_run_begins_at_the_beginning) {
  const auto p = program_of(1, 0, 2);
  sequencer s;
  for (int run = 0; run < 2; ++run) {
    BOOST_TEST_INFO_SCOPE("run " << run);
    s.begin(p, plan::lane::control);
    BOOST_TEST(s.num_ended() == 0U);
    BOOST_TEST(!s.next().has_value());
    s.extend(s.size());
    while (const auto id = s.next()) s.ended(*id);
    BOOST_TEST(s.all_ended());
  }
}

BOOST_AUTO_TEST_SUITE_END()
