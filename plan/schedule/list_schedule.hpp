// Schedules made by playing: each rank that is free takes the action that a policy prefers, under a cap of memory. Owns
// the policies; search.hpp tries them all and keeps the best.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/schedule/timing.hpp"

namespace troupe::plan {

/// What a schedule is made for: stages on ranks, what they cost, and what a rank may keep at once.
struct pipeline_problem {
  std::vector<uint32_t> rank_of_stage;  ///< [stage]
  uint32_t ranks = 1, micro_batches = 1;
  const pipeline_costs* costs = nullptr;
  uint64_t memory_bytes = UINT64_MAX;  ///< activations and what weight parts need, of a rank
};

/// What a rank does when it could do several things. After Qi et al. 2023, zerobubble/scheduler/zb.py, whose switches
/// are three; here a rank also chooses how far it goes ahead.
struct list_policy {
  enum class turn : uint8_t { backward_first, forward_first, alternate };
  turn prefers = turn::backward_first;
  std::optional<double> weights_waiting;  ///< times the rank's number: more weight parts than these precede a forward
  double late = 0;         ///< a weight part is begun in a gap though it ends that part of its time after the gap
  double ahead = 1e9;      ///< micro-batches in flight on a stage: at most this times the stages from it to the last
  bool deep_first = true;  ///< of several forwards, that of the later stage; else that of the earlier micro-batch
};

/// All policies that are worth a try.
std::vector<list_policy> list_policies(bool several_chunks);

/// The table that a policy makes: split backwards, micro-batches in order in each stage. Room for the oldest
/// micro-batch of a rank is kept free, so no cap that holds one micro-batch stops it. Nothing where the cap does not
/// hold one.
std::optional<pipeline_table> list_schedule(const pipeline_problem& p, const list_policy& policy);

}  // namespace troupe::plan
