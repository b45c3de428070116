// Predicts the time of a step if ranks share the cores of a machine. Every instruction that computes or copies needs a
// core; if more of them are ready than there are cores, all of them run slower. Owns this simulation of a step, by
// which job/degrees.hpp compares degrees; the simulation in cost.hpp has a core for each rank, and copies need no core.
#pragma once

#include "plan/choose/cost.hpp"

namespace troupe::plan {

/// Returns the seconds of a step that is neither skipped nor clipped. Lanes are in order and dependencies hold as in
/// `play`. A collective takes a core of every member, and ends when all members have moved their bytes. Disks take no
/// core. `cores` is at least 1. Deterministic. One plan of each class may be given, with the number of ranks it
/// represents.
double predict_on_cores(rank_plans ranks, const cost_model& costs, uint32_t cores,
                        std::vector<uint32_t> stands_for = {});

}  // namespace troupe::plan
