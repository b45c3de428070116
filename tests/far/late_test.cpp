// Tests whole sessions on the simulated device with late streams: the results have the CPU's bits in any order that
// streams and events allow, and have other bits, or cause an error, if one of the waits between lanes is left out.
#include "actors/hands/device_lane.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>

#include "tests/far/device.hpp"
#include "tests/far/late.hpp"
#include "tests/far/orders.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(late)

using namespace troupe;
using namespace troupe::tests;

namespace {

bool same(const run_result& a, const run_result& b) {
  return a.losses == b.losses && a.norms == b.norms && same_bits(a.weights, b.weights) && same_bits(a.first, b.first) &&
         same_bits(a.second, b.second);
}

/// The names of the waits between lanes that sessions have inserted, and the name of the wait that is left out.
struct wait_book {
  std::mutex lock;
  std::set<std::string> seen;
  std::string left_out;
};
wait_book& book() {
  static wait_book all;
  return all;
}

bool look_at(const actors::placed_wait& w) {
  const std::string name = std::string(plan::name_of(w.x.kind)) + " after " + std::string(plan::name_of(w.on.kind)) +
                           (w.on_host ? ", on the host" : "");
  const std::lock_guard guard(book().lock);
  book().seen.insert(name);
  return name == book().left_out;
}

struct watched_waits {
  watched_waits() { actors::watch_waits(&look_at); }
  ~watched_waits() { actors::watch_waits(nullptr); }
  watched_waits(const watched_waits&) = delete;
  watched_waits& operator=(const watched_waits&) = delete;
};

}  // namespace

// LAMB's trust ratio is computed on the host from norms that kernels of the shard lane write, so the host must wait for
// them.
BOOST_AUTO_TEST_CASE(an_update_by_lamb_reads_norms_that_are_there) {
  const small_job job;
  for (const settings& place : {stage(0), stage(0) + settings{"parallel.data=2"}, stage(2)})
    for (const uint64_t seed : {0, 1, 2}) BOOST_TEST_CONTEXT(text_of(place) << ", seed " << seed) {
        check_same(trained_late(job, place + lamb, seed), train(job, place + lamb, late_steps));
      }
}

namespace {

struct row {
  std::string name;
  settings set;
};

/// Returns a table with the launches, the waits of the host and the bytes moved in a step, one line for each job.
std::string table_of(const small_job& job, const std::vector<row>& rows) {
  std::string out = "| job | launches | waits of the host | bytes up | bytes down |\n|---|---|---|---|---|\n";
  for (const row& each : rows) {
    const auto s = job.open(each.set + on_late);
    step_of(*s);
    const auto before = far::counted();
    step_of(*s);
    const auto after = far::counted();
    out += fmt::format("| {} | {} | {} | {} | {} |\n", each.name,
                       after.kernels + after.torch - before.kernels - before.torch, after.waits - before.waits,
                       after.bytes_up - before.bytes_up, after.bytes_down - before.bytes_down);
  }
  return out;
}

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

// If TROUPE_WRITE_COUNTS is set, the test writes the table instead of comparing with it.
BOOST_AUTO_TEST_CASE(a_step_launches_waits_and_moves_what_the_table_says) {
  const settings three_micro_batches = {"gradient_accumulation_steps=3"}, two_ranks = {"parallel.data=2"};
  const settings host_updates = {zero + "offload_optimizer.device=cpu"};
  const small_job job;
  const std::string got = table_of(
      job, {{"stage 0", stage(0)},
            {"stage 0, three micro-batches, bf16", stage(0) + three_micro_batches + settings{"bf16.enabled=true"}},
            {"stage 2, updates on the host", stage(2) + host_updates},
            {"stage 3, two ranks", stage(3) + two_ranks},
            {"stage 2, two ranks, LAMB", stage(2) + two_ranks + lamb},
            {"stage 2, two ranks, Muon", stage(2) + two_ranks + muon}});
  const auto file = std::filesystem::path(places::source_dir) / "tests/far/counts.md";
  if (std::getenv("TROUPE_WRITE_COUNTS") != nullptr) std::ofstream(file) << got;
  BOOST_TEST(got == read(file));
}

BOOST_AUTO_TEST_CASE(a_lane_that_computes_waits_once_a_step_when_it_has_asked_for_all) {
  const small_job job;
  for (const settings& place : {stage(0), stage(0) + settings{"gradient_accumulation_steps=6"}, stage(3)})
    BOOST_TEST_CONTEXT(text_of(place)) {
      const far::late_device late(0);
      const auto s = job.open(place + on_late);
      step_of(*s);
      const auto before = far::counted();
      step_of(*s);
      BOOST_TEST(far::counted().compute_waits - before.compute_waits <= 1U);
    }
}

// The test runs a job for each way in which lanes depend on each other.
BOOST_AUTO_TEST_CASE(each_wait_that_is_left_out_shows) {
  const small_job job;
  const settings two_ranks = {"parallel.data=2"}, three_micro_batches = {"gradient_accumulation_steps=3"};
  const std::vector<settings> places = {
      stage(3) + two_ranks, stage(1) + two_ranks + three_micro_batches,
      stage(2) + two_ranks + settings{zero + "offload_optimizer.device=cpu"},
      // This job has one window of states, and some slices of weights stay in memory and are copied to and from the
      // file.
      stage(3) + states_in_files() +
          settings{zero + "offload_optimizer.buffer_count=4", zero + "offload_param.max_in_cpu=20000"},
      stage(2) + two_ranks + lamb, stage(2) + two_ranks + muon};
  // Leaving out these waits has no effect, because another wait implies each of them: the last reduction already waits
  // for all work for which the last release waits.
  const std::map<std::string, std::string> implied = {
      {"vote after release, on the host", "reduce after backward, on the host"}};
  const watched_waits watched;
  std::set<std::string> seen, shown;
  for (const settings& place : places) BOOST_TEST_CONTEXT(text_of(place)) {
      const auto wanted = train(job, place, late_steps);
      book().seen.clear();
      check_same(trained_late(job, place, 0), wanted);
      const auto here = book().seen;
      seen.insert(here.begin(), here.end());
      for (const std::string& wait : here) {
        if (shown.contains(wait) || implied.contains(wait)) continue;
        book().left_out = wait;
        far::come_late(true);
        for (uint64_t seed = 0; seed < 4 && !shown.contains(wait); ++seed) {
          try {
            if (!same(trained_late(job, place, seed), wanted)) shown.insert(wait);
          } catch (const std::runtime_error&) {
            shown.insert(wait);  // the error also shows that the wait was missing
          }
        }
        far::come_late(false);
        book().left_out.clear();
      }
    }
  for (const std::string& wait : seen)
    BOOST_TEST((shown.contains(wait) || implied.contains(wait)), wait << " may be left out");
  for (const auto& [wait, by] : implied) BOOST_TEST((seen.contains(wait) && shown.contains(by)), wait);
}

BOOST_AUTO_TEST_SUITE_END()
