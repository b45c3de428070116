// A run without hardware: production supervisor, node agent, ranks, lanes and loader under CAF's test scheduler, with
// modelled executors on a virtual clock. A seed decides the order of messages, all durations and the fault; the same
// seed gives the same run, to the last message. Needs no Torch, no text and no threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/rank.hpp"
#include "actors/sim/modelled_executor.hpp"
#include "fabric/modelled.hpp"

namespace troupe::actors {

using shared_rank_plans = std::vector<std::shared_ptr<const plan::rank_plan>>;  // [rank]

struct sim_options {  ///< how a simulated world behaves
  uint64_t seed = 0;
  plan::cost_model costs;
  fabric::linear_link link;                          ///< all collectives of the world share it
  std::chrono::nanoseconds latency_max{80'000};      ///< a message takes between 0 and this
  double noise = 0.5;                                ///< instructions take [1, 1 + noise) times the predicted time
  std::chrono::nanoseconds stall_after{50'000'000};  ///< limit of silence; see `patience` of actors/silence.hpp
  std::chrono::nanoseconds work_min{150'000'000};    ///< the least limit for working lanes
  uint32_t window = window_instructions;
  uint64_t overflow_in_run = 0;  ///< that run's gradient is not finite and its update skipped; 0: none
  uint64_t clip_in_run = 0;      ///< that run's gradient is above the limit; 0: none
  sim_fault fault;
};

/// The result of one order.
struct sim_run {
  plan::plan_choice which = plan::plan_choice::train;
  run_outcome outcome;     ///< `failure` says how it ended
  double seconds = 0;      ///< virtual, from order to answer
  int64_t ended_ns = 0;    ///< when the answer came, by the log's clock
  double predicted_s = 0;  ///< by plan::predict
  double patience_s = 0;   ///< the longest limit for a working lane
};

struct sim_result {               ///< everything that happened
  std::vector<sim_run> runs;      ///< as ordered; ends with the first that failed
  std::vector<sim_event> log;     ///< events of all lanes of all ranks, in order
  std::vector<std::string> told;  ///< messages of ranks to the host while they waited for a disk or the loader
  bool fault_struck = false;
  double fault_at_s = 0;  ///< virtual, since the start of the run in which it struck
  uint64_t messages = 0;
  uint64_t schedule = 0;  ///< equal numbers mean that messages came in the same order
};

/// Runs the plans of `order` one after the other. `plans` holds, by plan_choice, those of all ranks; kinds that are not
/// ordered may be empty. The host stops a run when it is told that it waits for a silent disk. Errors (kind `bug`): a
/// run gave no answer after 4 x its patience without any event, a failed company did not come to rest, or a second
/// order after a failure was not refused with the same words; kind `bad_input`: no order, an order of a kind without
/// plans, plans that are not those of all ranks of one job, options that no world has.
core::result<sim_result> simulate(const std::vector<shared_rank_plans>& plans,
                                  const std::vector<plan::plan_choice>& order, const sim_options& options);

/// Proves from the log that the runs followed their plans: every instruction once (at most once if the run failed),
/// lanes in order, dependencies and collectives respected, no lane beyond its window. The error names the instruction;
/// `bad_input`: runs of a kind without plans.
core::result<void> check_log(const std::vector<shared_rank_plans>& plans, const sim_result& result, uint32_t window);

/// Proves that the runs ended as the fault demands: well, however long something was frozen, or soon, with one error of
/// the right kind that names the rank, after which no lane starts anything.
core::result<void> check_ending(const sim_result& result, const sim_options& options, size_t num_ordered);

/// A fault of any kind somewhere in these runs; none where there are no runs, or a run of a kind without plans. A
/// working lane is frozen for less than three times `stall_after`, which the world's `work_min` has to allow.
sim_fault draw_fault(uint64_t seed, const std::vector<shared_rank_plans>& plans,
                     const std::vector<plan::plan_choice>& order, std::chrono::nanoseconds stall_after);

}  // namespace troupe::actors
