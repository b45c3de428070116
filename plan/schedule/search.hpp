// Makes a schedule for given costs of stages. Owns the choice among named schedules, played ones and improvements of
// both; its caller provides the costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "plan/schedule/timing.hpp"

namespace troupe::plan {

/// The input of a search for a pipeline schedule: size, costs and limits.
struct search_request {
  uint32_t ranks = 1, micro_batches = 1;
  pipeline_costs costs;  ///< costs of all stages; each rank has equally many stages
  /// Limit of the bytes that a rank may keep at once: activations, and the data that weight parts need.
  uint64_t memory_bytes = UINT64_MAX;
  /// Placement of stages on ranks; nothing: the faster one of both placements.
  std::optional<stage_placement> placement;
};

/// The schedule that a search has found, its predicted time, and a lower bound of that time.
struct found_schedule {
  pipeline_table table;
  std::string from;  ///< named schedule that the table is or was improved from, or "played"
  double total_s = 0;
  uint64_t peak_bytes = 0;   ///< peak bytes of the rank that keeps most
  double bound_s = 0;        ///< lower bound of the time of every schedule with this placement
  uint32_t bound_stage = 0;  ///< most expensive stage of the rank that determines the bound
};

/// Returns the fastest table found that trains within the memory. The table is not slower than any named schedule for
/// this size within the memory, and each stage has its micro-batches in order. Tests prove the tables; the search is
/// deterministic. Of equally fast tables it returns the one that keeps least, and of these a named one. It takes
/// milliseconds for hundreds of actions, about a second for 100,000.
///
/// Errors (bad_input): no ranks, stages or micro-batches, stages that the ranks do not divide; (limit): too many;
/// (no_space): a rank whose stages keep more for one micro-batch than the memory.
core::result<found_schedule> search_schedule(const search_request& request);

}  // namespace troupe::plan
