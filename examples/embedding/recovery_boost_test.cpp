// Tests a step and the recovery of the topology with Boost.Test: an order, an overlap, a peak, and the step at which
// the job goes on when a rank is lost. A failed check prints what was found, the seed, and the lanes or the terms.
#define BOOST_TEST_MODULE recovery_of_the_topology
#include <boost/test/included/unit_test.hpp>
#include <chrono>
#include <memory>
#include <stdexcept>

#include "config/load.hpp"
#include "sim/world.hpp"

using namespace troupe;

namespace {

std::shared_ptr<const config::job_config> topology() {
  auto loaded = config::load(boost::unit_test::framework::master_test_suite().argv[1]);
  if (!loaded) throw std::runtime_error(config::render(loaded.error()));
  return std::make_shared<const config::job_config>(std::move(loaded->config));
}

// Returns processors of 1 Gflop/s, so that computation takes much longer than communication. Messages between actors
// take no time.
sim::world_options slow_cores() {
  sim::world_options options;
  options.costs = plan::cost_model{.flops_per_s = 1e9};
  options.latency_max = std::chrono::nanoseconds(0);
  return options;
}

}  // namespace

// [snippet: recovery test]
BOOST_AUTO_TEST_CASE(a_step_has_its_order_and_a_lost_rank_costs_one_step) {
  // a step of one process: an order, an overlap, a peak
  const auto step = sim::world(topology(), slow_cores()).run();
  BOOST_TEST(step.starts("update 0").after("reduce bucket 2"));
  BOOST_TEST(step.overlap("gather head", "forward block 0") > 0.5);
  BOOST_TEST(step.peak("activations") < 256 * 1024);
  // a job of two processes: recovery
  sim::processes_options options;
  options.processes = 2;
  options.memory_every = 1;  // a save in memory in each step
  const sim::processes_world job(topology(), options);
  const auto run = job.with(sim::kill(sim::rank{1}).in_step(4)).run();
  BOOST_TEST(run.ended_well());
  BOOST_TEST(run.named("rank 1"));
  BOOST_TEST(run.resumed_at(2) == 3);  // step 4 is lost with its save, and step 3 is done again
  BOOST_TEST(run.lost_steps() == 1);
  BOOST_TEST(run.terms()[1].data == 1U);
}
// [end]
