// Tests the figures of simulated runs: the parts of a step and the peaks of memory, against the answers of the run.
#include "apps/simulate/step_parts.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

#include "apps/simulate/memory_peaks.hpp"
#include "plan/choose/cost.hpp"
#include "sim/world.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(step_parts)

using namespace troupe;
using namespace std::chrono_literals;

namespace {

/// Returns a world of ranks whose segments take 1 ms; with `disk`, optimizer states are in files.
sim::world small_world(bool disk) {
  auto options = plan::small_options(2, 3);
  if (disk) options.tiers.optimizer = plan::tier::nvme;
  sim::world_options machine;
  machine.costs = plan::cost_model{};
  machine.costs->flops_per_s = 1e9;
  machine.within_host_by_costs = true;
  return sim::world({plan::plans_of(plan::chain_table({3000, 6000, 3000}), options)}, machine);
}

double part(const apps::step_parts& all, apps::step_part which) { return all[static_cast<size_t>(which)]; }

double whole(const apps::step_parts& all) { return std::accumulate(all.begin(), all.end(), 0.0); }

}  // namespace

BOOST_AUTO_TEST_CASE(parts_sum_to_the_step_and_compute_is_what_the_lane_works) {
  for (const bool disk : {false, true}) {
    const auto world = small_world(disk);
    const auto run = world.run();
    const auto parts = apps::parts_of(run.log(), world.plans());
    BOOST_TEST_REQUIRE(parts.size() == 2U);
    const double step_s = run.step_s().value();
    for (uint32_t r = 0; r < 2; ++r) {
      BOOST_TEST(std::abs(whole(parts[r]) - step_s) < 1e-12);
      const double works = 1 - run.on(sim::rank{r}).idle(plan::lane::compute).value();
      BOOST_TEST(std::abs(part(parts[r], apps::step_part::compute) - works * step_s) < 1e-9);
      BOOST_TEST((part(parts[r], apps::step_part::disk) > 0) == disk);
      BOOST_TEST(part(parts[r], apps::step_part::bubble) == 0);
    }
    BOOST_TEST(std::abs(whole(apps::mean_of(parts)) - step_s) < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(a_fault_is_seen_in_the_part_that_it_lengthens) {
  const auto world = small_world(true);
  const auto parts = [&](const sim::fault& f) {
    const auto faulty = world.with(f);
    const auto run = faulty.run();
    BOOST_TEST(run.ended_well());
    return apps::parts_of(run.log(), faulty.plans());
  };
  const auto usual = apps::parts_of(world.run().log(), world.plans());
  const auto grown = [&](const std::vector<apps::step_parts>& now, uint32_t r, apps::step_part which) {
    return part(now[r], which) - part(usual[r], which);
  };
  const auto slow_disk = parts(sim::slow_disk(100));
  BOOST_TEST(grown(slow_disk, 0, apps::step_part::disk) > 0.01);
  BOOST_TEST(std::abs(grown(slow_disk, 0, apps::step_part::compute)) < 1e-4);
  const auto frozen = parts(sim::freeze(sim::rank{1}, 40ms).in_step(2));  // the mean of two steps
  BOOST_TEST(grown(frozen, 0, apps::step_part::waiting) > 0.015);
  BOOST_TEST(grown(frozen, 1, apps::step_part::control) > 0.015);
  const auto slow_update = parts(sim::late("update 0", 30ms).on(sim::rank{0}));
  BOOST_TEST(grown(slow_update, 0, apps::step_part::update) > 0.025);
  BOOST_TEST(grown(slow_update, 1, apps::step_part::update) < 0.001);
}

BOOST_AUTO_TEST_CASE(a_run_without_a_whole_step_has_no_parts) {
  const auto world = small_world(false).with(sim::kill(sim::rank{0}));
  BOOST_TEST(apps::parts_of(world.run().log(), world.plans()).empty());
}

BOOST_AUTO_TEST_CASE(peaks_of_memory_are_those_of_the_run) {
  const auto world = small_world(true);
  const auto run = world.run();
  const auto peaks = apps::memory_peaks_of(run.log(), world.plans());
  BOOST_TEST_REQUIRE(peaks.size() > 3U);
  for (const auto& x : peaks) {
    BOOST_TEST_CONTEXT(x.owner) {
      const bool is_sum = x.owner == "in all";
      BOOST_TEST(double(x.peak_bytes) == (is_sum ? run.peak() : run.peak(x.owner)).value());
      BOOST_TEST(x.peak_bytes <= x.planned_bytes);
    }
  }
  BOOST_TEST(peaks.back().owner == "in all");
}

BOOST_AUTO_TEST_SUITE_END()
