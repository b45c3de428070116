// Simulates the topology's job with Troupe's own actors on a virtual clock, in many orders of messages: how long a step
// takes, and that a rank which is lost is named. A seed replays a run. schedule_boost_test.cpp asks more, with
// Boost.Test.
#include <cstdio>
#include <memory>

#include "config/load.hpp"
#include "sim/world.hpp"

using namespace troupe;

namespace {

constexpr uint64_t num_seeds = 200;

int fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return fail("usage: schedule_test TOPOLOGY.yaml");
  auto loaded = config::load(argv[1]);
  if (!loaded) return fail(config::render(loaded.error()));
  // [snippet: simulate]
  sim::world_options options;
  options.steps.assign(3, plan::plan_choice::train);
  options.noise = 0.5;  // instructions take up to half more time, by the seed
  const sim::world world(std::make_shared<const config::job_config>(std::move(loaded->config)), options);
  const sim::simulated_run healthy = world.run();
  if (const auto well = healthy.ended_well(); !well) return fail(well.text());

  const sim::world doomed = world.with(sim::kill(sim::rank{1}).in_step(2));
  const auto named = sim::for_seeds(num_seeds, [&](uint64_t seed) {
    const sim::simulated_run run = doomed.run(seed);
    return run.faults_happened() && run.failed_with("rank 1");
  });
  if (!named) return fail(named.text());  // the text says how to replay the seed
  // [end]
  std::printf("a step takes %.2f ms of virtual time; a killed rank is named in %s\n", healthy.step_s().value() * 1e3,
              named.text().c_str());
  return 0;
} catch (const sim::world_error& e) {
  return fail(e.what());
}
