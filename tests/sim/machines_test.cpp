// Simulates a job on several machines whose connections, agents, processes and supervisor fail at any message. The job
// must end correctly or with a named cause; ranks of two terms (periods with a fixed set of processes) must never run
// at the same time, no collective may have members of two terms, processes without a fault must not be killed, and a
// short network cut must not repeat a step.
#include "sim/machines_world.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "sim/terms/run_watch.hpp"
#include "sim/terms/simulated_process.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/sim/job_result.hpp"
#include "tests/sim/machines_scenario.hpp"
#include "tests/sim/small_plans.hpp"

BOOST_AUTO_TEST_SUITE(machines)

using namespace troupe;
using namespace troupe::sim;

namespace {

std::string describe(const machines_scenario& s) {
  std::string out = fmt::format("seed {}, places on machines", s.options.seed);
  for (const uint32_t m : s.options.hosts) out += fmt::format(" {}", m);
  out += fmt::format(", {} ranks each, {} steps", s.options.ranks_each, s.options.steps);
  for (const auto& e : s.options.events) out += "; " + e.describe();
  return out;
}

size_t num_struck(const machines_scenario& s, const job_record& r, machine_trouble kind) {
  size_t out = 0;
  for (size_t i = 0; i < s.options.events.size(); ++i) out += s.options.events[i].kind == kind && r.struck[i];
  return out;
}

/// Returns true if the job ended with an error that the documentation allows and that names its cause. The first
/// machine is never lost, so the loss of other machines is no such error.
bool is_named(const machines_scenario& s, const job_record& r) {
  const std::string all = r.said + r.cause;
  if (num_struck(s, r, machine_trouble::executor_error) > 0 && all.find("the executor refuses") != std::string::npos)
    return true;
  // A job that cannot start before its first step has no save to continue from.
  if (r.steps_done == 0 && all.find(unfit_text) != std::string::npos) return true;
  for (const char* cause : {" before the first step", "losses with no step in between"})
    if (all.find(cause) != std::string::npos) return true;
  // The run may also end if the first machine lost its only process while no other machine is connected.
  return all.find("no process is left") != std::string::npos;
}

/// Returns an error text if the run violated an invariant or ended wrongly, or an empty text.
std::string fault_of(const machines_scenario& s, const job_record& r) { return fault_of(r, is_named(s, r)); }

uint64_t first_seed_that_finds(planted defect, uint64_t most, std::string& how) {
  for (uint64_t seed = 0; seed < most; ++seed) {
    auto s = machines_scenario_of(seed);
    s.options.defect = defect;
    how = fault_of(s, play_machines(s));
    if (!how.empty()) return seed;
  }
  return most;
}

}  // namespace

BOOST_AUTO_TEST_CASE(whatever_happens_to_machines_a_job_ends_right_or_with_a_named_cause_and_never_two_terms_work) {
  const char* const one = std::getenv("TROUPE_SEED");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 0;
  const uint64_t last = one != nullptr ? first + 1 : tests::wanted_cases("TROUPE_SEEDS", 500);
  std::array<uint64_t, num_machine_troubles> struck{};
  uint64_t well = 0, terms = 0, again = 0;
  double seconds = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const auto s = machines_scenario_of(seed);
    const auto r = play_machines(s);
    const std::string fault = fault_of(s, r);
    BOOST_CHECK_MESSAGE(fault.empty(), describe(s) << ": " << fault);
    if (one != nullptr) BOOST_TEST_MESSAGE(describe(s) << "\n" << r.said << r.cause);
    well += r.code == 0;
    terms += r.terms.size();
    again += r.steps_again;
    for (size_t i = 0; i < s.options.events.size(); ++i)
      struck[static_cast<size_t>(s.options.events[i].kind)] += r.struck[i];
    seconds = std::max(seconds, r.seconds);
  }
  BOOST_TEST_MESSAGE(well << " of " << last - first << " ended well; " << terms << " terms, " << again
                          << " steps done again, the longest " << seconds << " s");
  if (last - first < 100) return;
  BOOST_TEST(well > (last - first) * 3 / 4);
  BOOST_TEST(terms > last - first);
  for (size_t k = 0; k < struck.size(); ++k) {
    const auto kind = static_cast<machine_trouble>(k);
    BOOST_TEST_MESSAGE(name_of(kind) << ": " << struck[k]);
    BOOST_TEST(struck[k] >= 10U, name_of(kind));
  }
}

BOOST_AUTO_TEST_CASE(a_cut_shorter_than_the_time_after_which_ranks_are_given_up_costs_nothing) {
  const uint64_t last = tests::wanted_cases("TROUPE_SEEDS", 500) / 5;
  for (uint64_t seed = 0; seed < last; ++seed) {
    const auto s = short_cuts_of(seed);
    const auto r = play_machines(s);
    BOOST_TEST(fault_of(s, r) == "", describe(s));
    BOOST_TEST((r.code == 0));
    BOOST_TEST(r.terms.size() == 1U, describe(s) << r.said);
    BOOST_TEST(r.steps_again == 0U, describe(s));
  }
}

BOOST_AUTO_TEST_CASE(a_machine_that_comes_back_unfit_is_left_out_and_the_run_goes_on) {
  const uint64_t last = tests::wanted_cases("TROUPE_SEEDS", 500) / 5;
  uint64_t left_out = 0;
  for (uint64_t seed = 0; seed < last; ++seed) {
    auto s = one_lost_of_four(seed);
    s.options.events.front().kind = machine_trouble::comes_unfit;
    s.options.events.front().duration_ns /= 4;
    const auto r = play_machines(s);
    const std::string fault = fault_of(s, r);
    BOOST_CHECK_MESSAGE(fault.empty() && r.code == 0, describe(s) << ": " << fault);
    // The loss repeats up to `steps_again_max` steps, and so does the restart that fails on the unfit machine.
    BOOST_TEST(r.steps_again <= 2 * steps_again_max, describe(s) << r.said);
    left_out += r.said.find(" is left out: ") != std::string::npos;
  }
  BOOST_TEST(left_out > last / 4);
}

// After the loss, two of the three remaining machines have ranks, because three ranks do not divide the batch; the
// third machine may hold the only copies of the lost machine's files.
BOOST_AUTO_TEST_CASE(one_lost_machine_costs_a_step_though_others_are_left_without_ranks) {
  const uint64_t last = tests::wanted_cases("TROUPE_SEEDS", 500) / 5;
  uint64_t struck = 0;
  for (uint64_t seed = 0; seed < last; ++seed) {
    const auto s = one_lost_of_four(seed);
    const auto r = play_machines(s);
    struck += r.struck[0];
    BOOST_TEST(fault_of(s, r) == "", describe(s));
    BOOST_TEST((r.code == 0));
    BOOST_TEST(r.steps_again <= steps_again_max, describe(s) << r.said);
    BOOST_TEST(r.said.find("cannot be used") == std::string::npos, describe(s) << r.said);
  }
  BOOST_TEST(struck > last / 2);
}

BOOST_AUTO_TEST_CASE(a_job_on_machines_that_nothing_happens_to_does_each_step_once_in_one_term) {
  const auto s = healthy_machines({0, 0, 1, 2, 2});
  const auto r = play_machines(s);
  BOOST_TEST(fault_of(s, r) == "");
  BOOST_TEST((r.code == 0));
  BOOST_TEST(r.terms.size() == 1U);
  BOOST_TEST(r.steps_again == 0U);
}

BOOST_AUTO_TEST_CASE(the_same_seed_plays_the_same_run) {
  const auto s = machines_scenario_of(8);
  const auto a = play_machines(s), b = play_machines(s);
  BOOST_TEST(a.messages == b.messages);
  BOOST_TEST(a.seconds == b.seconds);
  BOOST_TEST(a.said == b.said);
}

BOOST_AUTO_TEST_CASE(a_term_that_begins_before_the_one_before_is_quiet_on_other_machines_is_found) {
  std::string how;
  BOOST_TEST(first_seed_that_finds(planted::next_term_without_quiet, 100, how) < 100U);
  BOOST_TEST(how.find(" while process ") != std::string::npos, how);
}

BOOST_AUTO_TEST_CASE(a_process_that_goes_on_while_its_machine_is_cut_off_is_found) {
  std::string how;
  BOOST_TEST(first_seed_that_finds(planted::silence_is_ignored, 200, how) < 200U);
  BOOST_TEST_MESSAGE(how);
}

BOOST_AUTO_TEST_SUITE_END()
