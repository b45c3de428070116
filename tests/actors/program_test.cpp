// A plan as lanes count it, and the counting.
#include <boost/test/unit_test.hpp>

#include "tests/actors/ranks.hpp"

using namespace troupe;
using namespace troupe::actors;

namespace {

std::shared_ptr<const program> program_of(uint32_t ranks, uint32_t stage, uint32_t accumulation) {
  return std::make_shared<const program>(small_plans(ranks, stage, accumulation).front());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(program)

BOOST_AUTO_TEST_CASE(every_edge_of_the_plan_is_counted_once_on_both_ends) {
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    const auto p = program_of(2, stage, 2);
    uint64_t counted = 0, edges = 0;
    for (const auto& x : p->plan->instructions) {
      edges += x.after.size();
      counted += p->dependents[x.id].size();
      BOOST_TEST(p->num_dependencies[x.id] == x.after.size());
      BOOST_TEST(p->plan->lanes[static_cast<size_t>(x.lane)][p->position[x.id]] == x.id);
      uint8_t lanes = 0;
      for (uint32_t d : p->dependents[x.id]) {
        const auto other = p->plan->instructions[d].lane;
        if (other != x.lane) lanes |= static_cast<uint8_t>(1U << static_cast<unsigned>(other));
      }
      BOOST_TEST(p->lanes_waiting[x.id] == lanes);
      if (x.sequence != plan::none) BOOST_TEST(p->of_sequence[x.sequence] == x.id);
    }
    BOOST_TEST(edges > 0U);
    BOOST_TEST(counted == edges);
  }
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
  BOOST_TEST(s.upcoming() == p->plan->lanes[0][2]);
  s.extend(1);  // a window never shrinks
  BOOST_TEST(s.window() == 2U);
  s.extend(100);
  BOOST_TEST(s.next().value() == p->plan->lanes[0][2]);
  BOOST_TEST(s.upcoming() == plan::none);
  BOOST_TEST(!s.all_ended());
}

BOOST_AUTO_TEST_CASE(an_instruction_starts_when_its_last_dependency_has_ended) {
  const auto p = program_of(2, 3, 1);
  const auto& compute = p->plan->lanes[static_cast<size_t>(plan::lane::compute)];
  sequencer s;
  s.begin(p, plan::lane::compute);
  s.extend(s.size());
  const auto& first = p->plan->instructions[compute.front()];
  BOOST_REQUIRE(!first.after.empty());
  for (uint32_t on : first.after) {
    BOOST_TEST(!s.next().has_value());
    s.ended(on);
  }
  BOOST_TEST(s.next().value() == first.id);
  BOOST_TEST(s.num_ended() == 0U);  // what ended was another lane's
}

BOOST_AUTO_TEST_CASE(lanes_that_tell_each_other_reach_the_end_of_every_plan) {
  for (uint32_t stage = 0; stage <= 3; ++stage) {
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
    s.begin(p, plan::lane::control);
    BOOST_TEST(s.num_ended() == 0U);
    BOOST_TEST(s.window() == 0U);
    s.extend(s.size());
    while (const auto id = s.next()) s.ended(*id);
    BOOST_TEST(s.all_ended());
  }
}

BOOST_AUTO_TEST_SUITE_END()
