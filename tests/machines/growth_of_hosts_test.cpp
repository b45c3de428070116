// Checks that the resources of a job on three hosts do not grow with its steps or with the losses that it survives, by
// counts early and late.
#include <csignal>

#include "tests/machines/growth.hpp"
#include "tests/machines/small_job.hpp"

BOOST_AUTO_TEST_SUITE(growth_of_hosts)

using namespace troupe::tests;

namespace {

/// A job with one rank on each of three hosts.
struct three_hosts {
  scratch_folder file;
  job_on_hosts job;
  watched at{job.folder().path(), "lost"};

  three_hosts() : job(command(file), nullptr) {}

  /// Kills the process with this number and waits until the job has three ranks again.
  void lose_and_regain(uint32_t place) const {
    const auto before = job.places();
    BOOST_TEST_REQUIRE(before.contains(place));
    ::kill(before.at(place), SIGKILL);
    const auto is_back = [&] {
      const auto now = job.places();
      return now.contains(place) && now.at(place) != before.at(place) && at.ranks_there() == job_on_hosts::number;
    };
    bool there = is_back();
    for (int tries = 0; tries < 600 && !there; ++tries, there = is_back()) ::usleep(50'000);
    BOOST_TEST_REQUIRE(there, "place " << place << " is lost");
  }
  void end_well() {
    job.stop();
    check_exit(0, job.first().end());
    for (uint32_t h = 1; h < job_on_hosts::number; ++h) BOOST_TEST(job.agent(h).end().code == 0);
  }

 private:
  static command_of_job command(const scratch_folder& file) {
    std::ofstream(file / "corpus.txt") << made_up_text(20'000);
    std::ofstream(file / "job.yaml") << tiny
                                     << "cluster: {hosts: [{name: a}, {name: b}, {name: c}], lost_after: 20s, "
                                        "restarts: {max: 1000000, backoff: 1ms}}\n";
    return {troupe::places::troupe_binary,
            (file / "job.yaml").string(),
            {"parallel.data=3", "train_batch_size=6", "checkpoint={every_steps: 20, keep_last: 2}"},
            {},
            false};
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(steps_of_several_hosts_leave_nothing_behind, memory_is_given_back) {
  three_hosts x;
  const auto before = x.at.paused_after(x.job.first(), 100), after = x.at.paused_after(x.job.first(), late_step());
  x.end_well();
  BOOST_TEST(before.size() == 6U);
  same(before, after, few_bytes);
}

BOOST_FIXTURE_TEST_CASE(terms_after_losses_leave_nothing_behind_on_any_host, memory_is_given_back) {
  three_hosts x;
  BOOST_TEST_REQUIRE(x.job.first().wait_for("step 20/"));
  const auto lose = [&](uint64_t times) {
    for (uint64_t i = 0; i < times; ++i) x.lose_and_regain(1 + i % 2);
    return x.at.paused_after(x.job.first(), 20, job_on_hosts::number);
  };
  const auto before = lose(2), after = lose(late_term() / 6);
  x.end_well();
  BOOST_TEST(before.size() == 6U);
  same(before, after, less_than_terms);
}

BOOST_AUTO_TEST_SUITE_END()
