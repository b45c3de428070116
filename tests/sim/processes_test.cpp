// Simulates a job of several processes on one machine whose processes, links and supervisor fail at any message. The
// job must end correctly or with a named cause; ranks of two terms (periods with a fixed set of processes) must never
// run at the same time, and no collective may have members of two terms.
#include "sim/processes_world.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "tests/crash/wanted_cases.hpp"
#include "tests/sim/job_result.hpp"
#include "tests/sim/processes_scenario.hpp"
#include "tests/sim/small_plans.hpp"

BOOST_AUTO_TEST_SUITE(processes)

using namespace troupe;
using namespace troupe::sim;

namespace {

std::string describe(const processes_scenario& s) {
  std::string out = fmt::format("seed {}, {} processes of {} ranks, {} spares", s.options.seed, s.options.processes,
                                s.options.ranks_each, s.options.spares);
  for (const auto& t : s.options.troubles) out += "; " + t.describe();
  return out;
}

bool has_struck(const processes_scenario& s, const job_record& r, trouble_kind kind) {
  for (size_t i = 0; i < s.options.troubles.size(); ++i)
    if (s.options.troubles[i].kind == kind && r.struck[i]) return true;
  return false;
}

/// Returns true if the job ended with an error that the documentation allows and that names its cause.
bool is_named(const processes_scenario& s, const job_record& r) {
  const std::string all = r.said + r.cause;
  if (has_struck(s, r, trouble_kind::executor_error) && all.find("the executor refuses") != std::string::npos)
    return true;
  for (const char* cause :
       {" before the first step", "no process is left", "losses with no step in between", "cluster.restarts.max"})
    if (all.find(cause) != std::string::npos) return true;
  return false;
}

/// Returns an error text if the run violated an invariant or ended wrongly, or an empty text.
std::string fault_of(const processes_scenario& s, const job_record& r) {
  if (r.code == 0 && !r.cause.empty()) return "it ended well, but who led says " + r.cause;
  return fault_of(r, is_named(s, r));
}

/// Returns the first seed in which the invariants detect the planted defect, or `most` if none does.
uint64_t first_seed_that_finds(planted defect, uint64_t most, std::string& how) {
  for (uint64_t seed = 0; seed < most; ++seed) {
    auto s = processes_scenario_of(seed);
    s.options.defect = defect;
    how = fault_of(s, play_processes(s));
    if (!how.empty()) return seed;
  }
  return most;
}

}  // namespace

BOOST_AUTO_TEST_CASE(whatever_happens_a_job_ends_right_or_with_a_named_cause_and_never_two_terms_work) {
  const char* const one = std::getenv("TROUPE_SEED");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 0;
  const uint64_t last = one != nullptr ? first + 1 : tests::wanted_cases("TROUPE_SEEDS", 500);
  std::array<uint64_t, num_trouble_kinds> struck{};
  uint64_t well = 0, terms = 0, again = 0, messages = 0;
  double seconds = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const auto s = processes_scenario_of(seed);
    const auto r = play_processes(s);
    const std::string fault = fault_of(s, r);
    BOOST_CHECK_MESSAGE(fault.empty(), describe(s) << ": " << fault);
    well += r.code == 0;
    terms += r.terms.size();
    again += r.steps_again;
    messages += r.messages;
    for (size_t i = 0; i < s.options.troubles.size(); ++i)
      struck[static_cast<size_t>(s.options.troubles[i].kind)] += r.struck[i];
    seconds = std::max(seconds, r.seconds);
  }
  BOOST_TEST_MESSAGE(well << " of " << last - first << " ended well; " << terms << " terms, " << again
                          << " steps done again, " << messages << " messages, the longest " << seconds << " s");
  if (last - first < 100) return;
  BOOST_TEST(well > (last - first) * 3 / 4);
  BOOST_TEST(terms > last - first);
  for (size_t k = 0; k < struck.size(); ++k) {
    const auto kind = static_cast<trouble_kind>(k);
    BOOST_TEST_MESSAGE(name_of(kind) << ": " << struck[k]);
    BOOST_TEST(struck[k] >= 10U, name_of(kind));
  }
}

BOOST_AUTO_TEST_CASE(a_job_that_nothing_happens_to_does_each_step_once_in_one_term) {
  processes_scenario s;
  s.options.processes = 3;
  s.options.ranks_each = 2;
  const auto r = play_processes(s);
  BOOST_TEST(fault_of(s, r) == "");
  BOOST_TEST((r.code == 0));
  BOOST_TEST(r.terms.size() == 1U);
  BOOST_TEST(r.steps_again == 0U);
}

// In this seed, messages to process 2 are lost for a long time: it leaves its term first, then the others do, and none
// reports a cause.
BOOST_AUTO_TEST_CASE(a_term_that_all_processes_leave_for_another_is_a_loss_and_not_the_end) {
  const auto s = processes_scenario_of(9480);
  const auto r = play_processes(s);
  BOOST_TEST(fault_of(s, r) == "", describe(s) << ": " << fault_of(s, r));
}

BOOST_AUTO_TEST_CASE(the_same_seed_plays_the_same_run) {
  const auto s = processes_scenario_of(8);
  const auto a = play_processes(s), b = play_processes(s);
  BOOST_TEST(a.messages == b.messages);
  BOOST_TEST(a.seconds == b.seconds);
  BOOST_TEST(a.said == b.said);
}

BOOST_AUTO_TEST_CASE(a_term_that_begins_before_the_one_before_is_quiet_is_found) {
  std::string how;
  BOOST_TEST(first_seed_that_finds(planted::next_term_without_quiet, 100, how) < 100U);
  BOOST_TEST(how.find(" while process ") != std::string::npos, how);
}

BOOST_AUTO_TEST_CASE(a_process_that_is_quiet_while_its_ranks_work_is_found) {
  std::string how;
  BOOST_TEST(first_seed_that_finds(planted::quiet_with_ranks, 100, how) < 100U);
  BOOST_TEST(how.find(" while process ") != std::string::npos, how);
}

BOOST_AUTO_TEST_CASE(a_process_that_ignores_the_end_of_its_term_is_found) {
  std::string how;
  BOOST_TEST(first_seed_that_finds(planted::end_is_ignored, 100, how) < 100U);
  BOOST_TEST_MESSAGE(how);
}

BOOST_AUTO_TEST_SUITE_END()
