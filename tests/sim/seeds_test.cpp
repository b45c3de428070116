// Random plans under random schedules, with and without faults: every run ends right or with one named error.
#include <map>

#include "tests/sim/world.hpp"

using namespace troupe;
using namespace troupe::actors;

BOOST_AUTO_TEST_SUITE(seeds)

BOOST_AUTO_TEST_CASE(without_faults_every_run_follows_its_plan) {
  const auto [first, last] = actors::seeds(500);
  uint64_t skipped = 0, messages = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const auto result = play(seed, false);
    messages += result.messages;
    for (const auto& r : result.runs) skipped += r.outcome.result.skipped;
  }
  BOOST_TEST_MESSAGE(messages << " messages, " << skipped << " skipped updates");
  if (last - first < 100) return;
  BOOST_TEST(skipped > 0U);
}

BOOST_AUTO_TEST_CASE(with_a_fault_every_run_ends_right_or_with_one_error_that_names_it) {
  const auto [first, last] = actors::seeds(500);
  std::map<sim_fault_kind, uint64_t> failed, passed;
  for (uint64_t seed = first; seed < last; ++seed) {
    const auto result = play(seed, true);
    const auto kind = scenario_of(seed, true).options.fault.kind;
    if (result.runs.empty()) continue;
    ++(result.runs.back().outcome.failure ? failed : passed)[kind];
  }
  if (last - first < 100) return;
  // The test is worth little unless faults strike.
  for (auto kind = size_t{0}; kind <= static_cast<size_t>(sim_fault_kind::silence); ++kind) {
    const auto k = static_cast<sim_fault_kind>(kind);
    BOOST_TEST_MESSAGE(name_of(k) << ": " << failed[k] << " failed, " << passed[k] << " ended right");
    BOOST_TEST((is_deadly(k) ? failed : passed)[k] >= 5U, name_of(k));
  }
}

BOOST_AUTO_TEST_SUITE_END()
