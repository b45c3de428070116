// Owns the answer of an analysis: means over the steps of a trace, the changes that gain most as sentences with their
// configuration keys, and the thresholds from which a change is named as a cause.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "telemetry/analysis/read_traces.hpp"
#include "telemetry/analysis/step_figures.hpp"
#include "telemetry/analysis/what_if.hpp"

namespace troupe::telemetry {

/// Number of changes that an analysis lists.
inline constexpr size_t max_listed_changes = 5;

/// Least gain, as a share of the step, of a change that is named as a cause because a rank, a part of a pipeline or a
/// link is slower than its peers.
inline constexpr double min_outlier_gain = 0.05;
/// Least gain of a change that compares with nothing: some exposed communication, loading or idle time is in every
/// step.
inline constexpr double min_cause_gain = 0.10;
/// Least gain from free updates that is a cause: the optimizer is part of every step.
inline constexpr double min_update_gain = 0.20;
/// A slow rank, part or link is listed before a change without a subject if it gains at least this share of the gain of
/// that change: it explains the other one.
inline constexpr double explaining_share = 0.4;

/// One change, as a mean over the analysed steps.
struct proposed_change {
  change_sort sort = change_sort::no_gaps;
  std::string subject;
  double ratio = 0;       ///< mean over the steps that have it; 0 if the subject is compared with nothing
  double gain_s = 0;      ///< seconds by which a replayed step is shorter
  double share = 0;       ///< gain_s by the length of the step; by that with the pause, if the pause is the gain
  bool is_cause = false;  ///< true if the gain reaches the threshold of the change
  std::string sentence;
  std::string key;  ///< configuration key to change first; empty if there is none
};

struct trace_analysis {
  trace_program program = trace_program::troupe;
  size_t ranks = 0;
  size_t steps_seen = 0;            ///< number of steps in the files
  std::vector<step_figures> steps;  ///< the analysed ones, ascending
  double step_s = 0;                ///< mean of the analysed steps
  double pause_s = 0;               ///< mean from the end of a step to the start of the next one; traces of Troupe
  std::vector<path_share> path;     ///< means; the parts add up to step_s
  std::vector<exposed_kind> exposed;
  std::vector<rank_wait> waits;
  std::vector<proposed_change> changes;  ///< at most max_listed_changes; causes first
  std::vector<std::string> notes;
};

/// Analyses all steps of `traces`. Errors: see step_graph::of.
core::result<trace_analysis> analyse(const kept_traces& traces);

}  // namespace troupe::telemetry
