// Runs plans with known defects of overlap without the plan checker: within a few seeds, the production actors at
// random speeds read or write wrong bytes. Plans without the defect never do.
#include "tests/plan/overlap_defects.hpp"

#include <random>

#include "tests/sim/replay.hpp"

BOOST_AUTO_TEST_SUITE(overlap_defects)

using namespace troupe;
using namespace troupe::actors;

namespace {

constexpr uint64_t seeds_max = 64;

/// Returns the computed expressions of the plan's run under this seed, or an error if an instruction misuses bytes or
/// deviates from `right`.
core::result<meaning> play(const shared_rank_plans& plans, uint64_t seed, const meaning& right = {}) {
  std::mt19937_64 random(seed);
  sim_options o;
  o.seed = seed;
  o.noise = 4;
  o.link.latency_us = double(10 + random() % 500);
  const std::vector<shared_rank_plans> all{plans};
  const auto did = simulate(all, {plan::plan_choice::train}, o);
  BOOST_REQUIRE_MESSAGE(did.has_value(), (did ? "" : did.error().text));
  BOOST_REQUIRE(did->runs.front().outcome.failure == nullptr);
  return replay(plans, *did, 0, right);
}

}  // namespace

BOOST_AUTO_TEST_CASE(unchecked_some_seed_shows_each_and_none_shows_plans_without_it) {
  for (const auto& d : plan::overlap_defects()) BOOST_TEST_CONTEXT(d.name) {
      const auto healthy = plan::healthy_plans(d), broken = plan::broken_plans(d);
      const auto right = play(healthy, 0);
      BOOST_REQUIRE_MESSAGE(right.has_value(), (right ? "" : right.error().text));
      uint64_t first = seeds_max, shown = 0;
      for (uint64_t seed = 0; seed < seeds_max; ++seed) {
        const auto same = play(healthy, seed, *right);
        BOOST_TEST(same.has_value(), (same ? "" : same.error().text));
        const auto found = play(broken, seed, *right);
        if (found) continue;
        if (shown++ == 0) {
          first = seed;
          BOOST_TEST_MESSAGE(d.name << ", seed " << seed << ": " << found.error().text);
        }
      }
      BOOST_TEST_MESSAGE(d.name << ": shown by " << shown << " of " << seeds_max << " seeds");
      BOOST_TEST(first < seeds_max);
    }
}

BOOST_AUTO_TEST_SUITE_END()
