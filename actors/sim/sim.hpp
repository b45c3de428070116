// Simulates a run without hardware: production supervisor, node agent, ranks, lanes and loader under CAF's test
// scheduler, with modelled executors on a virtual clock. A seed decides the order of messages, all durations and the
// fault; the same seed gives the same run, to the last message. Needs no Torch, no text and no threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/rank.hpp"
#include "actors/sim/modelled_executor.hpp"
#include "fabric/modelled.hpp"

namespace troupe::actors {

using shared_rank_plans = std::vector<std::shared_ptr<const plan::rank_plan>>;  // plans of all ranks, by rank

struct sim_options {  ///< options of a simulation
  uint64_t seed = 0;
  plan::cost_model costs;
  fabric::linear_link link;  ///< link that all collectives of the world share
  /// Largest latency of a message, which is drawn between 0 and this time.
  std::chrono::nanoseconds latency_max{80'000};
  /// Noise of the times: an instruction takes [1, 1 + noise) times its predicted time.
  double noise = 0.5;
  std::chrono::nanoseconds stall_after{50'000'000};  ///< limit of silence; see `patience` of actors/silence.hpp
  std::chrono::nanoseconds work_min{150'000'000};    ///< least limit of silence for lanes that work
  uint32_t window = window_instructions;
  /// Number of the run whose gradient is not finite and whose update is skipped; 0: none.
  uint64_t overflow_in_run = 0;
  uint64_t clip_in_run = 0;  ///< number of the run whose gradient norm is above modelled_norm_limit; 0: none
  sim_fault fault;
};

/// The result of one ordered run.
struct sim_run {
  plan::plan_choice which = plan::plan_choice::train;
  run_outcome outcome;     ///< outcome of the run; its `failure` is the run's error, if the run failed
  double seconds = 0;      ///< virtual seconds from the order of the run to its answer
  int64_t ended_ns = 0;    ///< time of the run's answer, by the log's clock
  double predicted_s = 0;  ///< seconds that plan::predict computes for the run
  double patience_s = 0;   ///< longest limit of silence for a working lane, in seconds
};

struct sim_result {               ///< result of a simulation: the outcome of each run
  std::vector<sim_run> runs;      ///< results of the runs in their order; the last one may have failed
  std::vector<sim_event> log;     ///< starts and ends of instructions on all lanes of all ranks, in order
  std::vector<std::string> told;  ///< messages of ranks to the host while they waited for a disk or the loader
  bool fault_struck = false;
  double fault_at_s = 0;  ///< virtual seconds from the start of the run in which the fault happened
  uint64_t messages = 0;
  uint64_t schedule = 0;  ///< hash of the order of all message deliveries: equal numbers mean the same order
};

/// Runs the plans of `order` one after the other. `plans` holds, by plan_choice, the plans of all ranks; kinds that are
/// not ordered may be empty. The host stops a run when it is notified that the run waits for a silent disk. Errors
/// (kind `bug`): a run gave no answer after 4 x its patience without any event, a failed company did not come to rest,
/// or a second order after a failure was not refused with the same words; kind `bad_input`: no order, an order of a
/// kind without plans, plans that are not those of all ranks of one job, invalid options.
core::result<sim_result> simulate(const std::vector<shared_rank_plans>& plans,
                                  const std::vector<plan::plan_choice>& order, const sim_options& options);

/// Proves from the log that the runs followed their plans: every instruction once (at most once if the run failed),
/// lanes in order, dependencies and collectives respected, no lane beyond its window. The error names the instruction;
/// `bad_input`: runs of a kind without plans.
core::result<void> check_log(const std::vector<shared_rank_plans>& plans, const sim_result& result, uint32_t window);

/// Proves that the runs ended as the fault requires: either well, however long the freeze, or soon, with one error of
/// the right kind that names the rank, after which no lane starts anything.
core::result<void> check_ending(const sim_result& result, const sim_options& options, size_t num_ordered);

/// Returns a fault of any kind at a random place in these runs; none if there are no runs, or a run of a kind without
/// plans. A working lane is frozen for less than three times `stall_after`, which the world's `work_min` must allow.
sim_fault draw_fault(uint64_t seed, const std::vector<shared_rank_plans>& plans,
                     const std::vector<plan::plan_choice>& order, std::chrono::nanoseconds stall_after);

}  // namespace troupe::actors
