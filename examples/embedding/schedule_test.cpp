// Simulates the topology's schedule with Troupe's own actors on a virtual clock, in many orders of messages. Checks
// that every run follows its plan, and that a run with a fault ends soon with one error that names the rank. A seed
// replays a run.
#include <cstdio>
#include <memory>

#include "actors/sim/sim.hpp"
#include "config/load.hpp"
#include "job/plans.hpp"

using namespace troupe;

namespace {

constexpr uint64_t num_seeds = 200;

int fail(uint64_t seed, const std::string& why) {
  std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed), why.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail(0, "usage: schedule_test TOPOLOGY.yaml");
  auto loaded = config::load(argv[1]);
  if (!loaded) return fail(0, config::render(loaded.error()));
  // [snippet: simulate]
  auto steps = job::make_plans(std::make_shared<const config::job_config>(std::move(loaded->config)));
  if (!steps) return fail(0, steps.error().text);  // `steps`: the checked plans of all ranks
  const std::vector<actors::shared_rank_plans> plans = {std::move(*steps)};
  const std::vector<plan::plan_choice> order(3, plan::plan_choice::train);  // three training steps

  size_t struck = 0;
  double seconds = 0;
  for (uint64_t seed = 0; seed < num_seeds; ++seed) {
    actors::sim_options options;
    options.seed = seed;
    if (seed % 2 == 1) options.fault = actors::draw_fault(seed, plans, order, options.stall_after);
    auto result = actors::simulate(plans, order, options);
    if (!result) return fail(seed, result.error().text);
    if (auto ok = actors::check_log(plans, *result, options.window); !ok) return fail(seed, ok.error().text);
    if (auto ok = actors::check_ending(*result, options, order.size()); !ok) return fail(seed, ok.error().text);
    struck += result->fault_struck ? 1 : 0;
    if (seed == 0) seconds = result->runs.front().seconds;
  }
  // [end]
  if (struck == 0) return fail(num_seeds, "no fault ever struck");
  std::printf("%llu runs, %zu with a fault; a step takes %.2f ms of virtual time\n",
              static_cast<unsigned long long>(num_seeds), struck, seconds * 1e3);
  return 0;
}
