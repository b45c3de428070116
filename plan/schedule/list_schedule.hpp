// Makes schedules by simulation: each rank that is free starts the action that a policy prefers, under a limit of
// memory. Owns the policies; search.hpp tries all of them and keeps the best table.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/schedule/timing.hpp"

namespace troupe::plan {

/// The input of a schedule: stages on ranks, their costs, and the bytes that a rank may keep at a time.
struct pipeline_problem {
  std::vector<uint32_t> rank_of_stage;  ///< [stage]: rank that computes the stage
  uint32_t ranks = 1, micro_batches = 1;
  const pipeline_costs* costs = nullptr;
  /// Limit of the bytes that one rank keeps at a time: activations, and the data that weight parts need.
  uint64_t memory_bytes = UINT64_MAX;
};

/// The rule by which a rank chooses among several possible actions. Source: Qi et al. 2023, zerobubble/scheduler/zb.py,
/// which has three switches; here a rank also chooses how far it runs ahead.
struct list_policy {
  enum class turn : uint8_t { backward_first, forward_first, alternate };
  turn prefers = turn::backward_first;
  /// If more weight parts wait than this number times the rank's number, a weight part precedes a forward; nothing:
  /// never.
  std::optional<double> weights_waiting;
  double late = 0;  ///< fraction of its own time by which a weight part may outlast the idle time it fills
  /// limit of micro-batches in flight on a stage, as a multiple of the number of stages from it to the last
  double ahead = 1e9;
  /// Choice among several possible forwards. True: the later stage first; false: the earlier micro-batch first.
  bool deep_first = true;
};

/// Returns all policies of list scheduling that a search should try.
std::vector<list_policy> list_policies(bool several_chunks);

/// Returns the pipeline table that a policy makes: with split backwards, and micro-batches in order in each stage.
/// Memory for the oldest micro-batch of a rank is reserved, so a schedule exists for every memory limit that is large
/// enough for one micro-batch. Returns nullopt for a smaller limit.
std::optional<pipeline_table> list_schedule(const pipeline_problem& p, const list_policy& policy);

}  // namespace troupe::plan
