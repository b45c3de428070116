// Makes a trace for Perfetto, and the figures that sum up a step, from the spans of its lanes. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "telemetry/figures/control_figures.hpp"
#include "telemetry/figures/io_figures.hpp"
#include "telemetry/figures/overlap_figures.hpp"
#include "telemetry/figures/step_division.hpp"
#include "telemetry/figures/work_figures.hpp"
#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Figures of one step. Times are in seconds, means over the ranks unless a member says otherwise.
struct step_summary {
  double step_s = 0;           ///< seconds from a rank's first start of an instruction to its last end; mean over ranks
  double whole_s = 0;          ///< seconds from the earliest start on any rank to the latest end on any rank
  double compute_s = 0;        ///< seconds in which the compute lane was busy
  double communication_s = 0;  ///< seconds in which a collective was in progress that all members had posted
  /// Seconds of communication_s in which neither the compute nor the shard lane worked.
  double exposed_s = 0;
  double idle_s[plan::num_lanes] = {};  ///< [lane]: seconds of step_s in which the lane ran no instruction
  /// Numbers of gather, release and reduce instructions, each counted on one rank for each part of the model
  /// (stage_leaders).
  uint64_t gathers = 0, releases = 0, reductions = 0;
  overlap_figures overlap;
  io_figures io;
  control_figures control;
  work_figures work;
  step_division division;
};
/// Computes the summary of one step over all ranks of a job. `cores` is the number of CPU cores that the lanes share;
/// 0: unlimited.
step_summary summarise(std::span<const rank_spans> ranks, uint32_t cores = 0);

/// Adds the summary of a run's step number `steps`, counted from 1, to `run`: figures become means, counts become sums
/// over the steps.
void add_step(step_summary& run, const step_summary& x, uint64_t steps);

/// Returns the Chrome trace events that name the trace's processes (one per rank) and threads (one per lane; the
/// compute lane has one for each of the rank's pipeline stages). Each event is followed by ",\n".
std::string trace_names(std::span<const rank_spans> ranks);

/// Returns the clock shifts of ranks on other machines as a member of the trace's object: `"otherData":{...}` and a
/// comma. Empty if all ranks have one clock.
std::string trace_clocks(std::span<const rank_spans> ranks);

/// Returns the instructions as Chrome trace events, comma separated, with times relative to `zero_ns`. An event
/// contains the instruction's wait since its last dependency, the ids that it waits for (`after`) and, for a
/// collective, its communicator and its position there (`collective`). Collectives are drawn from their posting to
/// their end. Instructions that did not run (not_run_ns) have no event.
std::string trace_events(std::span<const rank_spans> ranks, uint64_t step, int64_t zero_ns);

}  // namespace troupe::telemetry
