// Tests that a link that is slow but not lost is reported once, by both ends.
#include "actors/processes/slow_links.hpp"

#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <tuple>

BOOST_AUTO_TEST_SUITE(slow_links)

using namespace troupe;
using actors::link_traffic;
using actors::slow_link;
using actors::slow_links;

namespace {

/// Models three processes on three hosts; the test advances their clock and their counters of bytes.
class run_of_links {
 public:
  /// Sets the rate of the link from `from` to `to`, in bytes per second; all other links have 100 MB/s.
  void set(uint32_t from, uint32_t to, double bytes_per_s) { rate_of(from, to) = bytes_per_s; }

  /// Runs steps of one second in which every link moves `bytes`; returns all links that were reported as slow.
  std::vector<slow_link> steps(uint32_t count, uint64_t bytes = 5'000'000) {
    std::vector<slow_link> out;
    for (uint32_t k = 0; k < count; ++k) {
      now_ns_ += 1'000'000'000;
      for (size_t i = 0; i < all_.size(); ++i) {
        all_[i].bytes += bytes;
        all_[i].receiving_ns += static_cast<int64_t>(1e9 * double(bytes) / rates_[i]);
      }
      const auto found = links_.note(now_ns_, all_);
      out.insert(out.end(), found.begin(), found.end());
    }
    return out;
  }

 private:
  double& rate_of(uint32_t from, uint32_t to) {
    for (size_t i = 0; i < all_.size(); ++i)
      if (all_[i].from == from && all_[i].to == to) return rates_[i];
    throw std::logic_error("no such link");
  }

  int64_t now_ns_ = 1;
  std::vector<link_traffic> all_ = {{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}};
  std::vector<double> rates_ = std::vector<double>(6, 100e6);
  slow_links links_;
};

constexpr uint32_t enough = slow_links::window * slow_links::windows_until_named;

}  // namespace

BOOST_AUTO_TEST_CASE(one_slow_direction_is_named_once_after_two_windows) {
  run_of_links run;
  run.set(2, 0, 10e6);
  BOOST_TEST(run.steps(enough).empty());  // the first step only begins the first window of measurement
  const auto named = run.steps(1);
  BOOST_TEST_REQUIRE(named.size() == 1U);
  BOOST_TEST((named[0].from == 2 && named[0].to == 0));
  const auto close = boost::test_tools::tolerance(1e-6);
  BOOST_TEST(named[0].bytes_per_s == 10e6, close);
  BOOST_TEST(named[0].usual_bytes_per_s == 100e6, close);
  BOOST_TEST(named[0].share == 0.45, close);
  BOOST_TEST(run.steps(10 * enough).empty());
}

BOOST_AUTO_TEST_CASE(a_link_that_was_well_again_is_named_again) {
  run_of_links run;
  run.set(1, 2, 10e6);
  BOOST_TEST(run.steps(enough + 1).size() == 1U);
  run.set(1, 2, 40e6);  // the link is faster than before, but still slow
  BOOST_TEST(run.steps(enough).empty());
  run.set(1, 2, 10e6);
  BOOST_TEST(run.steps(enough).empty());
  run.set(1, 2, 90e6);
  BOOST_TEST(run.steps(slow_links::window).empty());
  run.set(1, 2, 10e6);
  BOOST_TEST(run.steps(enough).size() == 1U);
}

BOOST_AUTO_TEST_CASE(all_links_of_a_slow_host_are_named_the_slowest_first) {
  run_of_links run;
  for (const auto& [from, to, rate] : {std::tuple{1U, 0U, 9e6}, {1U, 2U, 8e6}, {0U, 1U, 7e6}, {2U, 1U, 6e6}})
    run.set(from, to, rate);
  const auto named = run.steps(enough + 1);
  BOOST_TEST_REQUIRE(named.size() == 4U);
  BOOST_TEST((named[0].from == 2 && named[0].to == 1));
  BOOST_TEST((named[3].from == 1 && named[3].to == 0));
}

BOOST_AUTO_TEST_CASE(a_link_that_costs_little_or_moves_little_or_is_slow_for_a_moment_is_not_named) {
  run_of_links cheap, quiet, brief, equal;
  cheap.set(2, 0, 10e6);
  // The transfers take only a tenth of a step, so their rate does not matter.
  BOOST_TEST(cheap.steps(10 * enough, 1'000'000).empty());
  quiet.set(2, 0, 1e3);
  BOOST_TEST(quiet.steps(10 * enough, 1000).empty());
  for (int k = 0; k < 10; ++k) {
    BOOST_TEST_INFO_SCOPE("k " << k);
    brief.set(2, 0, 10e6);
    BOOST_TEST(brief.steps(slow_links::window).empty());
    brief.set(2, 0, 100e6);
    BOOST_TEST(brief.steps(slow_links::window).empty());
  }
  for (const uint32_t from : {0U, 1U, 2U})
    for (const uint32_t to : {0U, 1U, 2U})
      if (from != to) equal.set(from, to, 6e6);
  BOOST_TEST(equal.steps(10 * enough).empty());  // if all links are slow, none is reported
}

BOOST_AUTO_TEST_CASE(a_sentence_names_the_hosts_and_ranks_of_both_ends) {
  const actors::term_members members(
      0, {{.place = 0, .first = 0, .count = 1, .machine = 0}, {.place = 1, .first = 1, .count = 2, .machine = 1}});
  std::vector<config::cluster_host> hosts(2);
  hosts[0].name = "a";
  hosts[1].name = "b";
  const slow_link x{1, 0, 2.0 * 1024 * 1024, 100.0 * 1024 * 1024, 0.45};
  const auto report = report_of(x, 17, members, hosts);
  BOOST_TEST((report.step == 17 && report.from == "host b (ranks 1 to 2)" && report.to == "host a (rank 0)"));
  BOOST_TEST((report.bytes_per_s == x.bytes_per_s && report.usual_bytes_per_s == x.usual_bytes_per_s));
  BOOST_TEST(report.share == 0.45);
  const auto ends = ends_of(report);
  BOOST_TEST(ends == "from host b (ranks 1 to 2) to host a (rank 0)");
  BOOST_TEST(
      text_of(report) ==
      "the link from host b (ranks 1 to 2) to host a (rank 0) is slow: it moves 2.00 MiB a second where the job's "
      "faster links move 100 MiB, which takes 45% of a step's time; the run continues (troupe doctor --cluster "
      "measures all links)");
  BOOST_TEST(actors::slow_links_of_run({}).empty());
  BOOST_TEST(
      actors::slow_links_of_run({ends, "from host a (rank 0) to host b (ranks 1 to 2)"}) ==
      "links between hosts that were slow and held up steps: from host b (ranks 1 to 2) to host a (rank 0), from "
      "host a (rank 0) to host b (ranks 1 to 2)");
}

BOOST_AUTO_TEST_SUITE_END()
