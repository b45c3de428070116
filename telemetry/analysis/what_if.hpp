// Owns the changes of a step that are tried: which times each of them would change, found by comparing ranks, stages
// and links with their peers. Each change is replayed on the graph of the step. Leaves words and keys to causes.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telemetry/analysis/step_graph.hpp"

namespace troupe::telemetry {

/// The sort of a change: how it alters the times of a step.
enum class change_sort : uint8_t {
  equal_rank,       ///< a rank computes as fast as the median of the other ranks that run the same instructions
  equal_stages,     ///< all parts of a pipeline compute as long
  equal_link,       ///< a communicator is as fast as the median of the others that do the same
  free_collective,  ///< all collectives of a kind take no time
  free_loading,     ///< batches are there when they are wanted
  free_disk,        ///< swaps take no time
  free_saving,      ///< copies and writes of checkpoints take no time
  free_update,      ///< norms and the optimizer take no time
  free_host,        ///< the program that launches kernels takes no time
  no_gaps,          ///< lanes start what they could have started
  no_pause,         ///< a step starts when the one before ends; found by comparing steps, not by a replay
};

/// Least ratio of a rank's computing time to the median of its peers that counts as slow.
inline constexpr double slow_rank_ratio = 1.1;
/// Least ratio of the longest part of a pipeline to the mean of the parts that counts as unbalanced.
inline constexpr double unbalanced_ratio = 1.1;
/// Least ratio of the times of a communicator to the median of its peers, by byte, that counts as slow.
inline constexpr double slow_link_ratio = 1.5;

/// A change of one step, and what it gains.
struct tried_change {
  change_sort sort = change_sort::no_gaps;
  /// The rank, the stage, the ranks of a link or the kind of collective; equal in all steps. Empty if the change is of
  /// all ranks.
  std::string subject;
  double ratio = 0;     ///< time of the subject by that of its peers; 0 if it is compared with nothing
  int64_t gain_ns = 0;  ///< time by which the replayed step is shorter
};

/// Returns all changes of a step that gain anything, those that gain most first.
std::vector<tried_change> changes_of(const step_graph& g);

}  // namespace troupe::telemetry
