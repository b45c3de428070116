// A step from the spans the lanes left: a trace for Perfetto, and the figures that sum it up.
// Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "telemetry/control_figures.hpp"
#include "telemetry/io_figures.hpp"
#include "telemetry/overlap_figures.hpp"
#include "telemetry/spans.hpp"
#include "telemetry/work_figures.hpp"

namespace troupe::telemetry {

/// Figures of one step, means over the ranks; times in seconds.
struct step_summary {
  double step_s = 0;                                   ///< first start to last end
  double whole_s = 0;                                  ///< the same over all ranks together
  double compute_s = 0;                                ///< the compute lane busy
  double communication_s = 0;                          ///< some collective under way that all members had reached
  double exposed_s = 0;                                ///< of that, while neither the compute nor the shard lane worked
  double idle_s[plan::num_lanes] = {};                 ///< step minus busy, by lane
  uint64_t gathers = 0, releases = 0, reductions = 0;  ///< of one rank for each part of the model (stage_leaders)
  overlap_figures overlap;
  io_figures io;
  control_figures control;
  work_figures work;
};
/// Over all ranks of a run, whose lanes share `cores` (0: as many as they like).
step_summary summarise(std::span<const rank_spans> ranks, uint32_t cores = 0);

/// Adds the summary of a run's step number `steps`, from 1: figures become means, counts become sums over the steps.
void add_step(step_summary& run, const step_summary& x, uint64_t steps);

/// The names of processes, which are ranks, and of threads, which are lanes; the compute lane has one for each of the
/// rank's stages. Chrome trace events, each with ",\n" behind it.
std::string trace_names(std::span<const rank_spans> ranks);

/// What the times of ranks on other machines were moved by: a member of the trace's object, `"otherData":{...}` with a
/// comma behind it. Empty where all ranks have one clock.
std::string trace_clocks(std::span<const rank_spans> ranks);

/// Chrome trace events of these processes and threads, comma separated, times relative to `zero_ns`.
/// Each instruction carries its wait since its last dependency; collectives are drawn from their posting to their end.
std::string trace_events(std::span<const rank_spans> ranks, uint64_t step, int64_t zero_ns);

}  // namespace troupe::telemetry
