// Tests sums of spans' times, and DeepSpeed's timers computed from spans.
#include "telemetry/spans.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/telemetry/spans_of.hpp"

BOOST_AUTO_TEST_SUITE(spans)

using namespace troupe;
using namespace troupe::telemetry;

BOOST_AUTO_TEST_CASE(intervals_that_touch_are_one) {
  const auto j = joined({{5, 9}, {0, 2}, {2, 4}, {6, 7}, {20, 21}});
  BOOST_TEST_REQUIRE(j.size() == 3U);
  BOOST_TEST(length_ns(j) == 4 + 4 + 1);
  BOOST_TEST(common_length_ns(j, joined({{3, 6}, {8, 30}})) == 1 + 1 + 1 + 1);
  BOOST_TEST(length_ns(joined({})) == 0);
}

BOOST_AUTO_TEST_CASE(a_collective_moves_once_the_last_member_is_there) {
  auto step = played_gpt(2);
  const auto& p = *step[0].plan;
  for (const auto& x : p.instructions) {
    if (x.sequence == plan::none) continue;
    step[0].spans[x.id] = {100, 900};
    step[1].spans[x.id] = {400, 900};
    BOOST_TEST(moving(step[0], x.id, posted_times(step)).start_ns == 400);
    BOOST_TEST(moving(step[1], x.id, posted_times(step)).length_ns() == 500);
    step[1].spans[x.id] = {950, 960};  // clocks of two processes may differ, but no duration may be negative
    BOOST_TEST(moving(step[0], x.id, posted_times(step)).length_ns() == 0);
  }
}

BOOST_AUTO_TEST_CASE(the_breakdown_sums_the_lanes_that_a_timer_covers) {
  for (uint32_t stage : {0U, 2U, 3U}) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    const auto step = played_gpt(2, stage, 2);
    const step_breakdown b = break_down(step, 0);
    double forward = 0, backward = 0;
    for (const auto& x : step[0].plan->instructions) {
      const double ms = double(step[0].spans[x.id].length_ns()) / 1e6;
      if (x.kind == plan::kind::forward) forward += ms;
      if (x.kind == plan::kind::backward || x.kind == plan::kind::recompute) backward += ms;
    }
    // A lane runs one instruction at a time, so the sum of durations equals their union, except for a nanosecond of
    // rounding for each.
    BOOST_TEST(std::abs(b.forward_ms - forward) < 1e-3);
    BOOST_TEST(std::abs(b.backward_inner_ms - backward) < 1e-3);
    BOOST_TEST(b.backward_allreduce_ms > 0);
    BOOST_TEST(b.backward_ms >= b.backward_inner_ms);
    BOOST_TEST(b.backward_ms <= b.backward_inner_ms + b.backward_allreduce_ms + 1e-9);
    BOOST_TEST(b.step_ms > 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
