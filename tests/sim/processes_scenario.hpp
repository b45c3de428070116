// Chooses a job of several processes on one machine and its faults at random from a seed, and runs it.
#pragma once

#include <cstdint>

#include "sim/processes_world.hpp"

namespace troupe::sim {

struct processes_scenario {
  processes_options options;
  uint32_t stage = 0;  ///< ZeRO stage of the plans
};
processes_scenario processes_scenario_of(uint64_t seed);

/// Simulates the job until it and its processes have ended, or until an invariant is broken.
job_record play_processes(const processes_scenario& s);

}  // namespace troupe::sim
