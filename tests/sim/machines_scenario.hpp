// Chooses a job on several machines and its faults at random from a seed, and runs it.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/machines_world.hpp"

namespace troupe::sim {

/// Timeout `cluster.lost_after` of the simulated jobs in ns.
inline constexpr int64_t machines_lost_after_ns = 250'000'000;

struct machines_scenario {
  machines_options options;
  uint32_t stage = 0;  ///< ZeRO stage of the plans
};
machines_scenario machines_scenario_of(uint64_t seed);
/// Returns a scenario whose only fault is a partition that ends before any process stops its ranks.
machines_scenario short_cuts_of(uint64_t seed);

/// Returns a scenario of four machines with one rank each, one of which is lost. Three data ranks do not divide the
/// batch of four, so only two of the remaining machines run ranks.
machines_scenario one_lost_of_four(uint64_t seed);
/// Returns a scenario without faults. `hosts`: [process]: its machine.
machines_scenario healthy_machines(std::vector<uint32_t> hosts);

/// Simulates the job until it has ended on all machines, or until an invariant is broken.
job_record play_machines(const machines_scenario& s);

}  // namespace troupe::sim
