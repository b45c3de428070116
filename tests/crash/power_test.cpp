// Tests a machine that loses power, on a file system that loses or tears data that were not synced, including writes in
// flight.
#include "tests/crash/story.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/fakes/file_system.hpp"

BOOST_AUTO_TEST_SUITE(power)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::storage;
using namespace troupe::tests;

namespace {

const std::filesystem::path at = "/runs/checkpoints";

}  // namespace

BOOST_AUTO_TEST_CASE(the_power_goes_at_every_operation_and_the_newest_committed_checkpoint_loads) {
  fake_files whole;
  BOOST_REQUIRE(story::tell(whole, at) == story::chapters.size());
  BOOST_TEST(whole.operations() > 150U);
  for (uint64_t n = 0; n <= whole.operations(); ++n) {
    fake_files files;
    files.lose_power_at(n);
    const size_t done = story::tell(files, at);
    for (const auto what : {survival::nothing, survival::everything}) {
      const auto after = files.after_power_cut(what);
      story::check(*after, at, done);
      BOOST_TEST(story::tell(*after, at) == story::chapters.size(), "cannot go on after " << n);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_thousand_ways_to_lose_and_tear_what_was_not_synced) {
  fake_files whole;
  story::tell(whole, at);
  for (uint64_t seed = 0; seed < wanted_cases("TROUPE_SEEDS", 1000); ++seed) {
    fake_files files;
    files.lose_power_at(core::mix64(seed) % (whole.operations() + 1));
    const size_t done = story::tell(files, at);
    story::check(*files.after_power_cut(survival::any, seed), at, done);
  }
}

BOOST_AUTO_TEST_CASE(a_crash_while_a_crash_is_cleaned_up_loses_nothing) {
  for (uint64_t seed = 0; seed < wanted_cases("TROUPE_SEEDS", 300); ++seed) {
    fake_files files;
    story::tell(files, at);
    const uint64_t all = files.operations();
    fake_files first;
    first.lose_power_at(core::mix64(seed) % all);
    const size_t done = story::tell(first, at);
    auto after = first.after_power_cut(survival::any, seed);
    for (uint64_t again = 0; again < 3; ++again) {
      after->lose_power_at(core::mix64(seed * 3 + again) % 12);
      (void)remove_leftovers(*after, at);
      after = after->after_power_cut(survival::any, core::mix64(seed + again));
    }
    story::check(*after, at, done);
  }
}

BOOST_AUTO_TEST_SUITE_END()
