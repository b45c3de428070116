// Tests statistics and traces computed from spans: the test writes the times of the contexts by hand.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "plan/lane_order.hpp"
#include "telemetry/figures/trace.hpp"
#include "tests/actors/ranks.hpp"

BOOST_AUTO_TEST_SUITE(trace)

using namespace troupe;
using namespace troupe::actors;
using namespace troupe::telemetry;

namespace {

constexpr int64_t begin_ns = 1'000'000;

// Returns contexts whose instructions run one after the other; each takes `length_ns`, and `gap_ns` separates them.
run_contexts one_by_one(const plan::shared_plans& plans, int64_t length_ns, int64_t gap_ns) {
  run_contexts out;
  for (const auto& p : plans) {
    out.push_back(context_of(p));
    int64_t now = begin_ns;
    for (const auto& x : p->instructions) {
      out.back()->spans[x.id].start_ns = now;
      out.back()->spans[x.id].end_ns = now + length_ns;
      now += length_ns + gap_ns;
    }
  }
  return out;
}

nlohmann::json events_of(const run_contexts& ranks, uint64_t step) {
  return nlohmann::json::parse(std::string("[").append(trace_events(spans_of(ranks), step, begin_ns)).append("]"));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_without_overlap_exposes_all_its_communication) {
  const auto plans = small_plans(2, 3);
  const auto& p = *plans.front();
  const auto s = summarise(spans_of(one_by_one(plans, 1000, 0)));
  const auto close = boost::test_tools::tolerance(1e-9);
  const double us = 1e-6;
  const double n = double(p.instructions.size());
  const auto in_lane = [&](plan::lane l) { return double(p.lanes[static_cast<size_t>(l)].size()); };
  BOOST_TEST(s.step_s == n * us, close);
  BOOST_TEST(s.compute_s == in_lane(plan::lane::compute) * us, close);
  BOOST_TEST(s.communication_s == in_lane(plan::lane::fabric) * us, close);
  BOOST_TEST(s.exposed_s == s.communication_s, close);
  for (const auto l : {plan::lane::control, plan::lane::compute, plan::lane::fabric, plan::lane::shard})
    BOOST_TEST(s.idle_s[static_cast<size_t>(l)] == (n - in_lane(l)) * us, close);
  const auto count = [&](plan::kind k) {
    return static_cast<uint64_t>(
        std::count_if(p.instructions.begin(), p.instructions.end(), [&](const auto& x) { return x.kind == k; }));
  };
  BOOST_TEST(s.gathers == count(plan::kind::gather));
  BOOST_TEST(s.gathers >= 3U);  // every unit has at least one gather
  BOOST_TEST(s.gathers == s.releases);
  BOOST_TEST(s.reductions == p.layout->buckets.size());
}

BOOST_AUTO_TEST_CASE(communication_under_compute_is_hidden_and_posting_early_is_not_communicating) {
  const auto plans = small_plans(2, 3);
  auto ranks = one_by_one(plans, 1000, 0);
  const auto& p = *plans.front();
  const auto& gather = find_instruction(p, [](const auto& x) { return x.kind == plan::kind::gather; });
  const double all = summarise(spans_of(ranks)).communication_s;
  // Rank 0 posts long before rank 1: the time until rank 1 posts counts as waiting, not as moving data.
  ranks[0]->spans[gather.id].start_ns = begin_ns - 500'000;
  BOOST_TEST(summarise(spans_of(ranks)).communication_s == all, boost::test_tools::tolerance(1e-9));
  // A compute instruction of the same duration as the gather overlaps with it on both ranks, so the gather is not
  // exposed.
  ranks[0]->spans[gather.id].start_ns = ranks[1]->spans[gather.id].start_ns.load();
  const auto& forward = find_instruction(p, [](const auto& x) { return x.kind == plan::kind::forward; });
  for (const auto& c : ranks) c->spans[forward.id].start_ns = c->spans[gather.id].start_ns.load();
  const auto s = summarise(spans_of(ranks));
  BOOST_TEST(s.exposed_s <= s.communication_s - 1e-6 + 1e-12);
}

BOOST_AUTO_TEST_CASE(the_wait_is_counted_from_the_last_dependency_to_the_start) {
  const auto plans = small_plans(1, 1, 2);
  const auto s = summarise(spans_of(one_by_one(plans, 1000, 700)));
  BOOST_TEST(s.control.in_lane_us == 0.7, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(s.control.cross_lane_us == 0.7, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(the_trace_holds_every_instruction_of_every_rank_in_its_lane) {
  const auto plans = small_plans(2, 3, 2);
  const auto events = events_of(one_by_one(plans, 2000, 0), 7);
  size_t wanted = 0;
  for (const auto& p : plans) wanted += p->instructions.size();
  BOOST_TEST(events.size() == wanted);
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (const auto& e : events) {
    const auto rank = e.at("pid").get<uint32_t>();
    const auto& x = plans[rank]->instructions[e.at("args").at("id").get<uint32_t>()];
    seen.emplace(rank, x.id);
    BOOST_TEST(e.at("name").get<std::string>() == plans[rank]->describe(x.id));
    BOOST_TEST(e.at("tid").get<uint32_t>() == static_cast<uint32_t>(x.lane));
    BOOST_TEST(e.at("ph").get<std::string>() == "X");
    BOOST_TEST(e.at("dur").get<double>() == 2.0);
    BOOST_TEST(e.at("ts").get<double>() == 2.0 * x.id);
    BOOST_TEST(e.at("args").at("step").get<int>() == 7);
    BOOST_TEST(e.at("args").at("bytes").get<uint64_t>() == x.moved_bytes);
  }
  BOOST_TEST(seen.size() == wanted);
}

BOOST_AUTO_TEST_SUITE_END()
