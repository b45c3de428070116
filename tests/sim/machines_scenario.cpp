// Chooses the faults of a simulated job on several machines at random from a seed, and runs it.
#include "tests/sim/machines_scenario.hpp"

#include <random>
#include <utility>

#include "tests/sim/small_plans.hpp"

namespace troupe::sim {
namespace {

constexpr int64_t lost_after_ns = machines_lost_after_ns;

/// Returns options in which links between machines take the times of links within one.
machines_options one_network() {
  machines_options out;
  out.between_hosts = {};
  return out;
}

}  // namespace

machines_scenario machines_scenario_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  machines_scenario out;
  machines_options& s = out.options = one_network();
  s.seed = seed;
  const bool leaves_out = seed % 4 == 3;  // a loss leaves a number of ranks that does not divide the batch
  const auto machines = static_cast<uint32_t>(leaves_out ? 4 : 2 + random() % 2);
  for (uint32_t m = 0; m < machines; ++m)
    for (uint64_t p = random() % 3 == 0 ? 2 : 1; p > 0; --p) s.hosts.push_back(m);
  s.ranks_each = random() % 5 == 0 && s.hosts.size() < 5 ? 2 : 1;
  if (leaves_out) s.divides = static_cast<uint32_t>(s.hosts.size()) * s.ranks_each;
  out.stage = static_cast<uint32_t>(random() % 4);
  s.steps = 8 + random() % 16;
  const uint64_t troubles = random() % 5;
  for (uint64_t i = 0; i < troubles; ++i) {
    machine_event e;
    const auto kind = random() % (4 * num_machine_troubles);
    e.kind = static_cast<machine_trouble>(kind % num_machine_troubles);
    // Executor errors are rare, because each of them ends the run, and most runs should end without an error.
    if (e.kind == machine_trouble::executor_error && kind >= num_machine_troubles) e.kind = machine_trouble::partition;
    e.machine = static_cast<uint32_t>(1 + random() % (machines - 1));
    e.place = static_cast<uint32_t>(random() % s.hosts.size());
    // `within` is a separate variable, because a compiler may evaluate either side of % first.
    const uint64_t within = random() % 4 == 0 ? 60 : 900;
    e.after_messages = random() % within;
    e.duration_ns = static_cast<int64_t>(random() % 40) * lost_after_ns / 20;
    s.events.push_back(e);
  }
  return out;
}

machines_scenario short_cuts_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto s = machines_scenario_of(seed);
  s.options.events = {{static_cast<machine_trouble>(random() % 3), 1, 0, 40 + random() % 600,
                       static_cast<int64_t>(random() % 60) * lost_after_ns / 100}};
  return s;
}

machines_scenario one_lost_of_four(uint64_t seed) {
  std::mt19937_64 random(seed);
  machines_scenario out;
  machines_options& s = out.options = one_network();
  s.seed = seed;
  s.hosts = {0, 1, 2, 3};
  s.divides = 4;
  out.stage = static_cast<uint32_t>(random() % 4);
  s.steps = 30;
  const auto machine = static_cast<uint32_t>(1 + random() % 3);
  const auto kind = random() % 2 == 0 ? machine_trouble::machine_lost : machine_trouble::agent_killed;
  s.events = {{kind, machine, machine, 300 + random() % 600, static_cast<int64_t>(random() % 40) * lost_after_ns / 20}};
  return out;
}

machines_scenario healthy_machines(std::vector<uint32_t> hosts) {
  machines_scenario out;
  out.options = one_network();
  out.options.hosts = std::move(hosts);
  return out;
}

job_record play_machines(const machines_scenario& s) {
  return machines_world([stage = s.stage](uint32_t data) { return small_plans(data, stage); }, s.options).run().log();
}

}  // namespace troupe::sim
