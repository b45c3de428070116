// Measures the constants of this machine by which instructions are priced (plan/choose/machine_costs.hpp), with the
// kernels and libraries that a run uses. Owns what is measured, at which sizes; keeps nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "job/kept_costs.hpp"

namespace troupe::actors {

/// Measured constants, and how busy other programs kept the machine meanwhile.
struct measured_rates {
  std::vector<job::costs_of_type> types;  ///< constants for fp32 and for bf16
  double share_of_others = 0;             ///< share of all cores' time that other programs used
  double took_s = 0;
};

/// Seconds for which each of about 25 operations is repeated, so that all of them take less than 10 s.
inline constexpr double usual_repeated_s = 0.25;

/// Measures on `cores` cores at the same time, each operation for `repeated_s`. `tell` is called with what is measured
/// next. Errors (limit): threads or memory are missing.
core::result<measured_rates> measure_rates(uint32_t cores, const std::function<void(const std::string&)>& tell,
                                           double repeated_s = usual_repeated_s);

}  // namespace troupe::actors
