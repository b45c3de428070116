// Tests the command `troupe schedule` as users type it.
#include <fstream>

#include "tests/apps/topology.hpp"

BOOST_AUTO_TEST_SUITE(schedule)

using namespace troupe::tests;

namespace {

finished typed(const command_folder& f, std::vector<std::string> words) {
  words.insert(words.begin(), "schedule");
  return f.troupe(words);
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_a_name_it_lists_the_names) {
  const command_folder f;
  const auto r = check_exit(0, typed(f, {}));
  for (const char* name : {"gpipe", "1f1b", "zb_v", "dual_pipe_v"})
    BOOST_TEST_CONTEXT(name) BOOST_TEST(has(r.out, name), r.out);
}

BOOST_AUTO_TEST_CASE(a_named_schedule_is_written_proved_and_timed) {
  const command_folder f;
  const auto r =
      check_exit(0, typed(f, {"1f1b", "--ranks", "2", "--micro-batches", "4", "--costs", "1,1,1", "--units", "6"}));
  BOOST_TEST(r.out == "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n", r.out);
  BOOST_TEST(has(r.err, "proved; 15 units of time"), r.err);
  BOOST_TEST(has(r.err, "rank 0: idle 3 between its first action and its last, at most 2 activations"), r.err);
  BOOST_TEST(has(r.err, "stage 1 on rank 1: units 3 to 5"), r.err);
}

BOOST_AUTO_TEST_CASE(what_it_writes_it_reads_and_a_fault_is_named_with_its_line) {
  const command_folder f;
  const auto wrote = check_exit(0, typed(f, {"zb_v", "--ranks", "3", "--micro-batches", "6", "--transfers"}));
  std::ofstream(f.folder.path() / "own.csv") << wrote.out;
  const auto again = check_exit(0, typed(f, {"own.csv"}));
  BOOST_TEST(again.out == wrote.out);
  std::ofstream(f.folder.path() / "bad.csv") << "0F0,0B0\n1F0\n";
  const auto refused = check_exit(2, typed(f, {"bad.csv"}));
  BOOST_TEST(has(refused.err, "bad.csv:"), refused.err);
}

BOOST_AUTO_TEST_CASE(a_search_is_no_slower_than_1f1b) {
  const command_folder f;
  const auto total = [&](const std::string& what) {
    const auto r = check_exit(0, typed(f, {what, "--ranks", "4", "--micro-batches", "8", "--costs", "3,2,2"}));
    return std::stod(r.err.substr(r.err.find("proved; ") + 8));
  };
  BOOST_TEST(total("search") <= total("1f1b"));
}

BOOST_AUTO_TEST_CASE(options_that_a_schedule_does_not_follow_are_refused) {
  const command_folder f;
  std::ofstream(f.folder.path() / "own.csv") << "0F0,0B0\n";
  for (const std::vector<std::string>& words : {std::vector<std::string>{"own.csv", "--ranks", "2"},
                                                {"own.csv", "--micro-batches", "2"},
                                                {"search", "--chunks", "2"}}) {
    const auto r = check_exit(2, typed(f, words));
    BOOST_TEST(has(r.err, words[1] + " would do nothing here"), r.err);
  }
  for (const char* units : {"0", "3"}) {
    const auto few = check_exit(2, typed(f, {"1f1b", "--ranks", "4", "--units", units}));
    BOOST_TEST(has(few.err, std::string("--units: wanted at least 4, one for each stage, got ") + units), few.err);
  }
  for (const char* option : {"--transfer", "--costs"}) {
    const auto less = check_exit(2, typed(f, {"1f1b", option, "-1"}));
    BOOST_TEST(has(less.err, std::string(option) + ": wanted a number of at least 0, got -1"), less.err);
  }
  const auto free_of_cost = typed(f, {"1f1b", "--costs", "0,0,0"});
  BOOST_TEST(has(free_of_cost.err, "proved; 0 units of time, 0.0 % of them idle"), free_of_cost.err);
  const auto none = check_exit(2, f.troupe({"schedule", "--units", "8"}));
  BOOST_TEST(has(none.err, "--units would do nothing here: it is for a schedule, and none is named"), none.err);
}

BOOST_AUTO_TEST_CASE(an_unknown_name_is_refused_with_those_there_are) {
  const command_folder f;
  const auto r = check_exit(2, typed(f, {"2f2b"}));
  BOOST_TEST(has(r.err, "1f1b"), r.err);
}

BOOST_AUTO_TEST_SUITE_END()
