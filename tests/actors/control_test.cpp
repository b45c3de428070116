// Tests the cost of control (idle time between instructions), computed from step contexts whose times the test writes
// directly.
#include <boost/test/unit_test.hpp>

#include "plan/lane_order.hpp"
#include "telemetry/figures/trace.hpp"
#include "tests/actors/ranks.hpp"

BOOST_AUTO_TEST_SUITE(control)

using namespace troupe;
using namespace troupe::actors;
using namespace troupe::telemetry;

namespace {

// Returns contexts whose instructions run in the order of the plan, 1 us each, with 0.7 us between the end of one and
// the start of the next.
run_contexts one_by_one(const plan::shared_plans& plans) {
  run_contexts out;
  for (const auto& p : plans) {
    out.push_back(context_of(p));
    int64_t now = 1'000'000;
    for (const auto& x : p->instructions) {
      out.back()->spans[x.id].start_ns = now;
      out.back()->spans[x.id].end_ns = now + 1000;
      now += 1700;
    }
  }
  return out;
}

// Returns the seconds for which the compute lane was idle although an instruction was ready to start, computed directly
// from the definition of control's cost.
double compute_waits_s(const rank_spans& c) {
  const auto ready = readiness_of(c);
  double s = 0;
  for (const auto& x : c.plan->instructions)
    if (const auto r = ready[x.id]; x.lane == plan::lane::compute && r.at_ns > 0)
      s += double(c.spans[x.id].start_ns - r.at_ns) / 1e9;
  return s;
}

const auto nearly = boost::test_tools::tolerance(1e-9);

}  // namespace

BOOST_AUTO_TEST_CASE(an_instruction_could_have_started_when_its_last_dependency_had_ended) {
  const auto ranks = one_by_one(small_plans(1, 3));
  const auto& c = *ranks.front();
  const auto& p = c.plan();
  const auto end = [&](uint32_t id) { return c.spans[id].end_ns.load(); };
  const auto all = readiness_of(spans_of(ranks).front());
  size_t alone = 0, across = 0;
  for (const auto& x : p.instructions) {
    int64_t last = 0;
    for (uint32_t on : x.after) last = std::max(last, end(on));
    const uint32_t position = c.program->position[x.id];
    if (position > 0 && !plan::starts_ahead(x.lane))
      last = std::max(last, end(p.lanes[static_cast<size_t>(x.lane)][position - 1]));
    const auto& r = all[x.id];
    BOOST_TEST(r.at_ns == last);
    across += r.at_ns > 0 && !r.same_lane;
    alone += r.at_ns > 0 && r.same_lane && !r.told_other;
  }
  BOOST_TEST(across > 0U);
  BOOST_TEST(alone > 0U);
}

BOOST_AUTO_TEST_CASE(idle_compute_with_a_free_core_is_control) {
  const auto ranks = one_by_one(small_plans(2, 3));
  const double waits = compute_waits_s(spans_of(ranks).front());
  BOOST_TEST(waits > 0);
  const auto s = summarise(spans_of(ranks), 2);
  // Both ranks did equal work at equal times on one lane each, so one of two cores was free only while both ranks were
  // idle.
  const auto free = summarise(spans_of(ranks), 3);
  BOOST_TEST(free.control.idle_s == waits, nearly);
  BOOST_TEST(free.control.no_core_s == 0);
  BOOST_TEST(s.control.idle_s + s.control.no_core_s == waits, nearly);
  BOOST_TEST(summarise(spans_of(ranks)).control.idle_s == waits, nearly);
}

BOOST_AUTO_TEST_CASE(idle_compute_while_other_lanes_have_every_core_is_not) {
  const auto ranks = one_by_one(small_plans(2, 3));
  const double waits = compute_waits_s(spans_of(ranks).front());
  constexpr auto fabric = static_cast<size_t>(plan::lane::fabric);
  for (const auto& c : ranks) c->worked[fabric].push_back({0, INT64_MAX / 2});
  const auto s = summarise(spans_of(ranks), 2);
  BOOST_TEST(s.control.idle_s == 0);
  BOOST_TEST(s.control.no_core_s == waits, nearly);
}

BOOST_AUTO_TEST_CASE(waiting_for_another_lane_is_not_control) {
  auto ranks = one_by_one(small_plans(1, 3));
  auto& c = *ranks.front();
  const auto before = control_of(spans_of(ranks), 0);
  // The last dependency of the first forward ends later, and all later instructions are moved by the same time.
  const auto& forward = c.plan().instructions[c.plan().lanes[static_cast<size_t>(plan::lane::compute)].front()];
  const auto first = readiness_of(spans_of(ranks).front())[forward.id];
  const int64_t there = first.at_ns;
  BOOST_TEST(!first.same_lane);
  for (auto& span : c.spans) {
    if (span.start_ns >= there) span.start_ns += 50'000;
    if (span.end_ns >= there) span.end_ns += 50'000;
  }
  BOOST_TEST(readiness_of(spans_of(ranks).front())[forward.id].at_ns == there + 50'000);
  const auto after = control_of(spans_of(ranks), 0);
  BOOST_TEST(after.idle_s == before.idle_s, nearly);
}

BOOST_AUTO_TEST_CASE(means_are_over_steps) {
  control_figures mean, a, b;
  a.idle_s = 1e-3, a.in_lane_us = 2, a.cross_lane_p99_us = 10;
  b.idle_s = 3e-3, b.in_lane_us = 6, b.cross_lane_p99_us = 30;
  take_mean(mean, a, 1);
  take_mean(mean, b, 2);
  BOOST_TEST(mean.idle_s == 2e-3, nearly);
  BOOST_TEST(mean.in_lane_us == 4, nearly);
  BOOST_TEST(mean.cross_lane_p99_us == 20, nearly);
}

BOOST_AUTO_TEST_SUITE_END()
