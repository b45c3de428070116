// Tests the schedule of the topology with Boost.Test: an order, an overlap, a peak, and what a user reads when a rank
// is killed. A failed check prints what was found, the seed, and the lanes around the moment.
#define BOOST_TEST_MODULE schedule_of_the_topology
#include <boost/test/included/unit_test.hpp>
#include <chrono>
#include <memory>
#include <stdexcept>

#include "config/load.hpp"
#include "sim/world.hpp"

using namespace troupe;

namespace {

// Returns the job on processors of 1 Gflop/s, so that computation takes much longer than communication. Messages
// between actors take no time.
sim::world slow_world() {
  auto loaded = config::load(boost::unit_test::framework::master_test_suite().argv[1]);
  if (!loaded) throw std::runtime_error(config::render(loaded.error()));
  sim::world_options options;
  options.costs = plan::cost_model{.flops_per_s = 1e9};
  options.latency_max = std::chrono::nanoseconds(0);
  return sim::world(std::make_shared<const config::job_config>(std::move(loaded->config)), options);
}

}  // namespace

// [snippet: schedule test]
BOOST_AUTO_TEST_CASE(communication_hides_and_a_lost_rank_is_named) {
  const sim::world world = slow_world();
  const auto run = world.run();
  BOOST_TEST(run.ended_well());
  // an order
  BOOST_TEST(run.starts("forward block 1").after("gather block 1, forward"));
  BOOST_TEST(run.starts("update 0").after("reduce bucket 2"));
  BOOST_TEST(run.on(sim::rank{1}).order({"forward block 0", "forward block 1", "backward block 1", "vote"}));
  // an overlap: most of the gather moves while the block before it computes
  BOOST_TEST(run.overlap("gather head", "forward block 0") > 0.5);
  // a peak
  BOOST_TEST(run.peak("activations") < 256 * 1024);
  // a fault: whatever the order of messages, the error names the rank that was killed
  BOOST_TEST(sim::for_seeds(50, [&](uint64_t seed) {
    const auto lost = world.with(sim::kill(sim::rank{1}).when("backward block 1")).run(seed);
    return lost.faults_happened() && lost.failed_with("rank 1");
  }));
}
// [end]
