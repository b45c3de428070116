// Finds the most memory that each owner holds at a time in a simulated run. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/history.hpp"

namespace troupe::apps {

/// The most bytes that a rank holds for an owner at a time, next to what its plans set aside.
struct memory_peak {
  std::string owner;
  uint64_t planned_bytes = 0;  ///< bytes of the owner in the plans, of the rank with the most
  uint64_t peak_bytes = 0;
  uint32_t rank = 0;  ///< first rank that holds peak_bytes
  int64_t at_ns = 0;  ///< virtual time at which it does so first
};

/// Returns the peaks of all owners that hold memory, in the order of the memory table, then that of all owners
/// together, which is named "in all". `plans`: those of the run, by plan_choice.
std::vector<memory_peak> memory_peaks_of(const sim::history& h, const std::vector<actors::shared_rank_plans>& plans);

}  // namespace troupe::apps
