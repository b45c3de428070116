// Tests the graph of a step on random steps and on small ones that a reader can follow: the path tiles the step,
// measured times replay to the step, waits are found.
#include "telemetry/analysis/step_graph.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

#include "telemetry/analysis/step_figures.hpp"
#include "telemetry/analysis/step_maker.hpp"
#include "telemetry/analysis/what_if.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(graph_of_trace)

using namespace troupe;
using namespace troupe::telemetry;
using tests::check_ok;

namespace {

traced_span span_of(step_maker& m, uint32_t rank, const std::string& lane, work_sort sort, int64_t start, int64_t end) {
  traced_span x;
  x.rank = m.rank(rank);
  x.lane = m.lane(x.rank, lane, sort == work_sort::communication || sort == work_sort::disk);
  x.kind = m.kind(std::string(name_of(sort)));
  x.name = m.name(std::string(name_of(sort)));
  x.sort = sort;
  x.start_ns = start, x.end_ns = end;
  return x;
}

/// Returns a step with random times: some of them contradict its order, as clocks of several machines do.
traced_step random_step(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](uint64_t below) { return random() % below; };
  step_maker m(seed);
  const auto ranks = static_cast<uint32_t>(1 + draw(4));
  std::vector<std::vector<uint32_t>> spans(ranks);
  const bool is_contradictory = draw(3) == 0;
  for (uint32_t i = 0, n = static_cast<uint32_t>(20 + draw(60)); i < n; ++i) {
    const auto r = static_cast<uint32_t>(draw(ranks));
    const auto sort = static_cast<work_sort>(draw(num_work_sorts - 1));
    const auto start = static_cast<int64_t>(1000 * i + draw(500)), length = static_cast<int64_t>(draw(3000));
    const auto add = [&](uint32_t rank) {
      auto x = span_of(m, rank, std::string(name_of(sort)), sort, start + int64_t(draw(200)), start + 200 + length);
      const auto& before = spans[rank];
      for (uint64_t w = draw(3); w > 0 && !before.empty(); --w) {
        const uint32_t on = before[draw(before.size())];
        if (is_contradictory || m.step().spans[on].end_ns <= x.start_ns) x.after.push_back(on);
      }
      return x;
    };
    if (sort != work_sort::communication) {
      spans[r].push_back(m.add(add(r)));
      continue;
    }
    const uint32_t k = m.collective(std::to_string(i));
    std::vector<std::pair<uint32_t, uint32_t>> members;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      auto x = add(rank);
      x.collective = k;
      members.emplace_back(rank, m.add(std::move(x)));
    }
    for (const auto& [rank, at] : members) spans[rank].push_back(at);
  }
  return m.finished();
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_path_tiles_the_step_and_measured_times_replay_to_it) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    const auto s = random_step(seed);
    const auto made = step_graph::of(s);
    const auto& g = *check_ok(made);
    const auto path = g.critical_path();
    BOOST_TEST_REQUIRE(!path.empty());
    int64_t at = g.bounds().start_ns;
    for (const auto& p : path) {
      BOOST_TEST(p.start_ns == at);
      BOOST_TEST(p.end_ns > p.start_ns);
      at = p.end_ns;
    }
    BOOST_TEST(at == g.bounds().end_ns);
    BOOST_TEST(g.replayed(g.measured()) == g.bounds().length_ns());
    int64_t sum = 0;
    for (const auto& p : figures_of(g).path) sum += p.ns;
    BOOST_TEST(sum == g.bounds().length_ns());
  }
}

BOOST_AUTO_TEST_CASE(less_work_never_makes_a_replayed_step_longer) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto s = random_step(seed);
    const auto made = step_graph::of(s);
    const auto& g = *check_ok(made);
    auto t = g.measured();
    std::mt19937_64 random(seed);
    int64_t before = g.bounds().length_ns();
    for (int i = 0; i < 10; ++i) {
      t.work[random() % t.work.size()] /= 2;
      t.gap[random() % t.gap.size()] = 0;
      const int64_t now = g.replayed(t);
      BOOST_TEST(now <= before, "seed " << seed);
      before = now;
    }
    for (const auto& c : changes_of(g)) BOOST_TEST((c.gain_ns > 0 && c.gain_ns <= g.bounds().length_ns()));
  }
}

BOOST_AUTO_TEST_CASE(a_collective_begins_when_its_last_member_arrives_and_the_others_wait_for_it) {
  step_maker m(0);
  const auto add = [&](uint32_t rank, work_sort sort, int64_t start, int64_t end, std::vector<uint32_t> after) {
    auto x = span_of(m, rank, std::string(name_of(sort)), sort, start, end);
    x.after = std::move(after);
    if (sort == work_sort::communication) x.collective = m.collective("only");
    return m.add(std::move(x));
  };
  const uint32_t a = add(0, work_sort::compute, 0, 100, {}), b = add(1, work_sort::compute, 0, 400, {});
  const uint32_t x = add(0, work_sort::communication, 110, 500, {a}),
                 y = add(1, work_sort::communication, 410, 500, {b});
  add(0, work_sort::update, 500, 600, {x});
  const auto s = m.finished();
  const auto made = step_graph::of(s);
  const auto& g = *check_ok(made);
  BOOST_TEST(g.began_ns(x) == 410);
  BOOST_TEST(g.measured().work[x] == 90);
  const auto path = g.critical_path();
  BOOST_TEST_REQUIRE(path.size() == 4U);  // rank 1 computes, posts late, moves; rank 0 updates
  BOOST_TEST(path[0].span == b);
  BOOST_TEST((path[1].span == y && path[1].idle && path[1].length_ns() == 10));
  BOOST_TEST((path[2].span == x && !path[2].idle && path[2].length_ns() == 90));
  const auto f = figures_of(g);
  BOOST_TEST_REQUIRE(f.waits.size() == 1U);
  BOOST_TEST((f.waits[0].rank == 0 && f.waits[0].for_rank == 1 && f.waits[0].ns == 300));
  BOOST_TEST_REQUIRE(f.exposed.size() == 1U);
  BOOST_TEST((f.exposed[0].count == 1 && f.exposed[0].moving_ns == 90 && f.exposed[0].exposed_ns == 90));
  auto t = g.measured();
  t.work[b] = 100;  // rank 1 computes as fast as rank 0
  BOOST_TEST(g.replayed(t) == 300);
}

BOOST_AUTO_TEST_CASE(work_that_waits_for_itself_and_indices_that_are_none_are_refused) {
  step_maker m(7);
  auto x = span_of(m, 2, "compute", work_sort::compute, 0, 10);
  x.after = {1};
  m.add(x);
  x.start_ns = 20, x.end_ns = 30, x.after = {};
  m.add(x);
  const auto s = m.finished();
  tests::check_error(step_graph::of(s),
                     "step 7, rank 2, 'compute': it waits for itself, by way of others: the times or "
                     "the order in the trace are damaged");
  auto none = s;
  none.spans[0].after = {9};
  tests::check_error(step_graph::of(none), "step 7, rank 2, 'compute': it waits for work that the trace does not have");
  auto back = s;
  back.spans[0].after = {}, back.spans[0].end_ns = -1;
  tests::check_error(step_graph::of(back), "step 7, rank 2, 'compute': it ends before it starts");
}

BOOST_AUTO_TEST_SUITE_END()
