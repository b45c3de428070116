// Simulates random plans under random schedules, with and without faults: every run ends correctly or with one named
// error.
#include <map>

#include "tests/sim/world.hpp"

BOOST_AUTO_TEST_SUITE(seeds)

using namespace troupe;
using namespace troupe::actors;

namespace {

/// Returns true if the plans of the seed update before the gradient norm is known and repeat the updates of clipped
/// steps.
bool may_redo(const scenario& s) {
  const auto& all = s.plans.front();
  return std::ranges::any_of(all, [](const auto& p) {
    return std::ranges::any_of(p->instructions, [](const auto& x) { return x.kind == plan::kind::redo; });
  });
}

/// Returns true if pipeline stages of the seed exchange and add the gradients of a tied weight.
bool exchanges_ties(const scenario& s) {
  const auto& all = s.plans.front();
  return !all.front()->layout->exchanges.empty();
}

/// Returns true if the seed's model exchanges data between the ranks of a tensor, sequence or context group.
bool exchanges(const scenario& s) {
  return std::ranges::any_of(s.plans.front().front()->instructions,
                             [](const auto& x) { return x.kind == plan::kind::exchange; });
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_faults_every_run_follows_its_plan) {
  const auto [first, last] = actors::seeds(500);
  uint64_t skipped = 0, redone = 0, tied = 0, shared = 0, messages = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const auto result = play(seed, false);
    messages += result.messages;
    for (const auto& r : result.runs) {
      skipped += r.outcome.result.skipped;
      if (r.which != plan::plan_choice::train) continue;
      const auto s = scenario_of(seed, false);
      if (r.outcome.result.clipped && may_redo(s)) ++redone;
      if (exchanges_ties(s)) ++tied;
      if (exchanges(s)) ++shared;
    }
  }
  BOOST_TEST_MESSAGE(messages << " messages, " << skipped << " skipped updates, " << redone << " done again, " << tied
                              << " with a tied weight across stages, " << shared << " with exchanges in a group");
  if (last - first < 100) return;
  BOOST_TEST(skipped > 0U);
  BOOST_TEST(redone > 10U);
  BOOST_TEST(tied > 10U);
  BOOST_TEST(shared > 50U);
}

BOOST_AUTO_TEST_CASE(with_a_fault_every_run_ends_right_or_with_one_error_that_names_it) {
  const auto [first, last] = actors::seeds(500);
  std::map<sim_fault_kind, uint64_t> failed, passed;
  uint64_t while_clipped = 0, among_exchanges = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const auto result = play(seed, true);
    const auto s = scenario_of(seed, true);
    const auto kind = s.options.fault.kind;
    if (result.runs.empty()) continue;
    if (result.fault_struck && s.options.fault.run == s.options.clip_in_run && may_redo(s)) ++while_clipped;
    if (result.fault_struck && exchanges(s)) ++among_exchanges;
    ++(result.runs.back().outcome.failure ? failed : passed)[kind];
  }
  if (last - first < 100) return;
  // Faults must strike often enough, because otherwise the test checks little.
  BOOST_TEST_MESSAGE(while_clipped << " faults struck a run that does updates again, " << among_exchanges
                                   << " a job with exchanges in a group");
  BOOST_TEST(while_clipped > 10U);
  BOOST_TEST(among_exchanges > 50U);
  for (auto kind = size_t{0}; kind <= static_cast<size_t>(sim_fault_kind::silence); ++kind) {
    const auto k = static_cast<sim_fault_kind>(kind);
    BOOST_TEST_MESSAGE(name_of(k) << ": " << failed[k] << " failed, " << passed[k] << " ended right");
    BOOST_TEST((is_deadly(k) ? failed : passed)[k] >= 5U, name_of(k));
  }
}

BOOST_AUTO_TEST_SUITE_END()
