// Tests the threads that share a lane's work: each part of the work is done once, whatever the number of threads.
#include "actors/hands/host_team.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(host_team)

BOOST_AUTO_TEST_CASE(every_part_is_done_once_before_the_call_returns) {
  for (const uint32_t threads : {0U, 1U, 2U, 5U}) {
    troupe::actors::host_team team(threads);
    for (const uint64_t parts : {0U, 1U, 2U, 3U, 100U, 1000U}) {
      std::vector<std::atomic<int>> done(parts);
      team.run(parts, [&](uint64_t part) { ++done[part]; });
      for (uint64_t part = 0; part < parts; ++part)
        BOOST_TEST(done[part] == 1, "part " << part << " of " << parts << " with " << threads << " threads");
    }
  }
}

BOOST_AUTO_TEST_CASE(parts_run_beside_each_other) {
  troupe::actors::host_team team(2);
  std::atomic<int> begun = 0;
  // Each part waits until the other one has begun, so the call would hang if the parts ran one after the other.
  team.run(2, [&](uint64_t) {
    ++begun;
    while (begun < 2) std::this_thread::yield();
  });
  BOOST_TEST(begun == 2);
}

BOOST_AUTO_TEST_SUITE_END()
