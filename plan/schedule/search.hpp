// Searches for the fastest pipeline schedule for given costs of stages. Owns the choice among named schedules,
// schedules made by simulation (list_schedule.hpp) and improvements of both; its caller provides the costs.
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
  /// Limit of the bytes that a rank may keep at a time: activations, and the data that weight parts need.
  uint64_t memory_bytes = UINT64_MAX;
  /// Placement of stages on ranks; if empty, the search tries both placements and keeps the faster one.
  std::optional<stage_placement> placement;
};

/// The schedule that a search has found, its predicted time, and a lower bound of that time.
struct found_schedule {
  pipeline_table table;
  /// Name of the schedule that the table equals or was improved from; "played": a schedule made by list_schedule().
  std::string from;
  double total_s = 0;
  uint64_t peak_bytes = 0;   ///< largest peak bytes of any rank, as pipeline_costs counts the bytes of activations
  double bound_s = 0;        ///< lower bound of the time of every schedule with this placement
  uint32_t bound_stage = 0;  ///< most expensive stage of the rank that determines the bound
};

/// Returns the fastest pipeline table that was found and meets the memory limit. It is not slower than any named
/// schedule of this size that meets the limit, and each stage has its micro-batches in order. Of equally fast tables,
/// returns one with the lowest peak bytes, and of these a named schedule. The search is deterministic, and takes
/// milliseconds for hundreds of actions, about a second for 100,000.
///
/// Errors (bad_input): no ranks, stages or micro-batches, stages that the ranks do not divide; (limit): too many;
/// (no_space): a rank whose stages keep more for one micro-batch than the memory.
core::result<found_schedule> search_schedule(const search_request& request);

}  // namespace troupe::plan
