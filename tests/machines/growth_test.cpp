// Checks that the resources of a job do not grow with its steps or terms, by counts early and late. `make test` runs a
// few hundred steps, `make soak` thousands.
#include <fmt/format.h>

#include "tests/machines/growth.hpp"

BOOST_AUTO_TEST_SUITE(growth)

using namespace troupe::tests;

namespace {

/// Checks that a run has no more resources after step `late` than after step `early`, except those in `more`. `ranks`:
/// number of ranks at both counts; 0: any number.
void stays_as_it_is(const std::vector<std::string>& keys, uint64_t early, uint64_t late,
                    const allowed& more = few_bytes, const std::vector<std::string>& further = {}, size_t ranks = 0) {
  const command_folder f(tiny);
  std::vector<std::string> command{troupe::places::troupe_binary, "train", "job.yaml", "--set", "output=out"};
  for (const auto& k : keys) command.insert(command.end(), {"--set", k});
  command.insert(command.end(), further.begin(), further.end());
  process run(command, f.folder.path());
  const watched at{f.folder.path(), "out"};
  const auto before = at.paused_after(run, early, ranks);
  const auto after = at.paused_after(run, late, ranks);
  run.send(SIGTERM);
  const auto ended = run.end();
  BOOST_TEST(ended.code == 128 + SIGTERM, ended.err);
  same(before, after, more);
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(steps_of_one_process_leave_nothing_behind, memory_is_given_back) {
  stays_as_it_is({}, 100, late_step() > 400 ? 20 * late_step() : 2 * late_step());
  stays_as_it_is({"checkpoint={every_steps: 20, keep_last: 2}", "telemetry.json_lines=true", "telemetry.report=true"},
                 100, late_step());
}

BOOST_FIXTURE_TEST_CASE(steps_of_several_processes_leave_nothing_behind, memory_is_given_back) {
  stays_as_it_is({"cluster.processes=ranks", "cluster.spares=1"}, 100, late_step());
  stays_as_it_is({"cluster.processes=ranks", "checkpoint={every_steps: 20, keep_last: 2}"}, 100, late_step());
}

BOOST_FIXTURE_TEST_CASE(terms_leave_nothing_behind_in_any_process, memory_is_given_back) {
  const uint64_t terms = late_term();
  std::string degrees = "2@0";
  for (uint64_t i = 1; i <= terms; ++i) degrees += fmt::format(",{}@{}", i % 2 == 0 ? 2 : 1, 4 * i);
  const uint64_t late = 4 * terms / 10 * 10 + 10;
  stays_as_it_is({"cluster.processes=ranks"}, 20, late, less_than_terms, {"--degrees", degrees}, 2);
  stays_as_it_is({}, 20, late, less_than_terms, {"--degrees", degrees}, 2);
}

BOOST_AUTO_TEST_SUITE_END()
