// Tests that analyses name the cause of a slow step: planted faults come first, healthy jobs have none.
#include "telemetry/analysis/causes.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/telemetry/analysis/made_trace.hpp"

BOOST_AUTO_TEST_SUITE(causes)

using namespace troupe;
using namespace troupe::telemetry;
using tests::check_ok;

namespace {

trace_analysis analysis_of(const made_job& job) {
  const tests::scratch_folder folder;
  const auto file = folder.write("trace.json", made_trace(job).text());
  const auto traces = *check_ok(read_traces({file}));
  return *check_ok(analyse(traces));
}

/// Jobs of several shapes: data parallelism alone, pipelines alone, both.
std::vector<made_job> shapes() {
  std::vector<made_job> out(5);
  out[0].data = 2;
  out[1].data = 4;
  out[2].stages = 2, out[2].data = 2, out[2].micro = 4;
  out[3].stages = 4, out[3].data = 2, out[3].micro = 8, out[3].layers = 2;
  out[4].data = 8, out[4].layers = 6;
  for (size_t i = 0; i < out.size(); ++i) out[i].seed = 17 + i;
  return out;
}

struct planted {
  std::string what;
  made_job job;
  change_sort sort;
  std::string subject;
};

/// Returns every fault in every shape that can have it.
std::vector<planted> all_planted() {
  std::vector<planted> out;
  const auto all = shapes();
  for (size_t i = 0; i < all.size(); ++i) {
    const auto with = [&](const std::string& what, change_sort sort, const std::string& subject, auto change) {
      made_job job = all[i];
      job.seed += 100 * out.size();
      change(job);
      out.push_back({fmt::format("{} in shape {}", what, i), job, sort, subject});
    };
    const uint32_t last = all[i].stages * all[i].data - 1;
    with("a slow rank", change_sort::equal_rank, fmt::to_string(last),
         [&](made_job& j) { j.slow_rank = int32_t(last), j.slow_factor = 1.5; });
    with("a slightly slow rank", change_sort::equal_rank, "0",
         [](made_job& j) { j.slow_rank = 0, j.slow_factor = 1.2; });
    with("a late loader", change_sort::free_loading, "", [](made_job& j) { j.late_batch = 30'000; });
    with("a late loader of one rank", change_sort::free_loading, "",
         [](made_job& j) { j.late_batch = 40'000, j.late_rank = 1; });
    with("a slow disk", change_sort::free_disk, "", [](made_job& j) { j.swap_in = 15'000; });
    with("exposed gathers", change_sort::free_collective, "gather", [](made_job& j) { j.gather = 3000; });
    with("exposed reductions", change_sort::free_collective, "reduce", [](made_job& j) { j.reduce = 6000; });
    with("a stall of a checkpoint", change_sort::free_saving, "", [](made_job& j) { j.snapshot = 90'000; });
    with("gaps of all ranks", change_sort::no_gaps, "", [](made_job& j) { j.host_gap = 600; });
    with("gaps of one rank", change_sort::no_gaps, "", [](made_job& j) { j.host_gap = 900, j.gap_rank = 1; });
    with("a slow optimizer", change_sort::free_update, "", [](made_job& j) { j.update = 25'000; });
    if (all[i].stages == 1) continue;
    with("an unbalanced stage", change_sort::equal_stages, "1",
         [](made_job& j) { j.slow_stage = 1, j.stage_factor = 1.6; });
    with("a slow link between stages", change_sort::equal_link, fmt::format("0, {}", all[i].data),
         [](made_job& j) { j.slow_boundary = 0, j.link_factor = 60; });
    with("slow links of a stage", change_sort::equal_link, fmt::format("{}, {}", all[i].data, all[i].data + 1),
         [](made_job& j) { j.slow_group = 1, j.link_factor = 15; });
  }
  return out;
}

std::string listed(const trace_analysis& a) {
  std::string out;
  for (const auto& c : a.changes) out += (c.is_cause ? "\n  cause: " : "\n  ") + c.sentence;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_planted_cause_is_named_first) {
  const auto all = all_planted();
  BOOST_TEST(all.size() >= 40U);
  size_t first = 0;
  std::string missed;
  for (const auto& p : all) {
    const auto a = analysis_of(p.job);
    BOOST_TEST_REQUIRE(!a.changes.empty(), p.what);
    const auto& c = a.changes.front();
    const bool is_right = c.is_cause && c.sort == p.sort && c.subject == p.subject;
    first += is_right;
    if (!is_right) missed += "\n" + p.what + ":" + listed(a);
  }
  BOOST_TEST(first * 20 >= all.size() * 19, first << " of " << all.size() << missed);
}

BOOST_AUTO_TEST_CASE(a_healthy_job_has_no_cause) {
  size_t tried = 0;
  for (auto job : shapes())
    for (uint64_t seed = 0; seed < 6; ++seed, ++tried) {
      job.seed = 1000 * seed + tried;
      const auto a = analysis_of(job);
      for (const auto& c : a.changes) BOOST_TEST(!c.is_cause, "shape " << tried / 6 << ": " << listed(a));
    }
  BOOST_TEST(tried >= 20U);
}

BOOST_AUTO_TEST_CASE(the_parts_of_the_path_add_up_to_the_step_and_the_changes_are_five) {
  for (const auto& job : shapes()) {
    const auto a = analysis_of(job);
    BOOST_TEST(a.steps.size() == job.steps);
    BOOST_TEST(a.ranks == size_t{job.stages} * job.data);
    double sum = 0;
    for (const auto& p : a.path) sum += double(p.ns) / 1e9;
    BOOST_TEST(sum == a.step_s, boost::test_tools::tolerance(1e-3));
    for (const auto& s : a.steps) {
      int64_t parts = 0;
      for (const auto& p : s.path) parts += p.ns;
      BOOST_TEST(parts == s.length_ns);
    }
    BOOST_TEST(a.changes.size() <= max_listed_changes);
  }
}

BOOST_AUTO_TEST_CASE(a_replayed_gain_is_what_the_job_without_the_fault_takes_less) {
  made_job job;
  job.data = 4, job.noise = 0;
  const double healthy = analysis_of(job).step_s;
  job.slow_rank = 2, job.slow_factor = 1.5;
  const auto slow = analysis_of(job);
  BOOST_TEST(slow.changes.front().gain_s == slow.step_s - healthy, boost::test_tools::tolerance(0.02));
  BOOST_TEST(slow.changes.front().ratio == 1.5, boost::test_tools::tolerance(0.01));
  BOOST_TEST(tests::has(slow.changes.front().sentence, "rank 2 computes 1.50 times as long as the others"));
  BOOST_TEST_REQUIRE(!slow.waits.empty());
  for (const auto& w : slow.waits) BOOST_TEST(w.for_rank == 2U);
}

BOOST_AUTO_TEST_CASE(the_rank_that_a_loader_keeps_waiting_is_named_with_the_key) {
  made_job job;
  job.late_batch = 30'000, job.late_rank = 1;
  const auto c = analysis_of(job).changes.front();
  BOOST_TEST(c.key == "data.prefetch_batches");
  BOOST_TEST(tests::has(c.sentence, "on rank 1 above all: data.prefetch_batches"), c.sentence);
  job.late_rank = -1;
  const auto of_all = analysis_of(job).changes.front();
  BOOST_TEST(!tests::has(of_all.sentence, "on rank"), of_all.sentence);
}

BOOST_AUTO_TEST_CASE(a_pause_between_steps_is_a_cause_that_no_replay_of_a_step_shows) {
  made_job job;
  job.pause = 20'000;
  const auto a = analysis_of(job);
  BOOST_TEST(a.pause_s == 0.02, boost::test_tools::tolerance(0.01));
  BOOST_TEST(a.changes.front().is_cause);
  BOOST_TEST((a.changes.front().sort == change_sort::no_pause), listed(a));
  BOOST_TEST(a.changes.front().share == a.pause_s / (a.pause_s + a.step_s), boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(a_long_trace_keeps_its_last_steps_and_one_step_can_be_chosen) {
  const tests::scratch_folder folder;
  made_job job;
  job.steps = 12;
  const auto file = folder.write("trace.json", made_trace(job).text());
  const auto traces = *check_ok(read_traces({file}));
  BOOST_TEST(traces.steps_seen == 12U);
  BOOST_TEST_REQUIRE(traces.steps.size() == max_kept_steps);
  BOOST_TEST(traces.steps.front().number == 12 - max_kept_steps);
  const auto one = *check_ok(read_traces({file}, 3));
  BOOST_TEST_REQUIRE(one.steps.size() == 1U);
  BOOST_TEST(one.steps.front().number == 3U);
  tests::check_error(read_traces({file}, 12), "--step 12: '" + file.string() + "' has 12 steps, from 0 to 11");
}

BOOST_AUTO_TEST_SUITE_END()
