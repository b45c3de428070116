// A schedule made for what stages cost. Owns the choice among named schedules, played ones and improvements of both;
// leaves where costs come from to its caller.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "plan/schedule/timing.hpp"

namespace troupe::plan {

/// What a schedule is wanted for.
struct search_request {
  uint32_t ranks = 1, micro_batches = 1;
  pipeline_costs costs;                      ///< of stages: as many on each rank
  uint64_t memory_bytes = UINT64_MAX;        ///< activations, and what weight parts need, that a rank may keep at once
  std::optional<stage_placement> placement;  ///< nothing: whichever is faster
};

/// What was found.
struct found_schedule {
  pipeline_table table;
  std::string from;  ///< what it is, or was improved from: a named schedule, or "played"
  double total_s = 0;
  uint64_t peak_bytes = 0;   ///< of the rank that keeps most
  double bound_s = 0;        ///< no schedule of this placement is faster
  uint32_t bound_stage = 0;  ///< whose rank has that bound, the stage that costs most there
};

/// The fastest table found that trains within the memory: not slower than any named schedule for this size within it,
/// and each stage has its micro-batches in order. Proved by tests; deterministic; of equally fast tables that which
/// keeps least, of these a named one. Takes milliseconds for hundreds of actions, about a second for 100,000.
///
/// Errors (bad_input): no ranks, stages or micro-batches, stages that the ranks do not divide; (limit): too many;
/// (no_space): a rank whose stages keep more for one micro-batch than the memory.
core::result<found_schedule> search_schedule(const search_request& request);

}  // namespace troupe::plan
