// A run without hardware: production supervisor, node agent, ranks, lanes and loader under CAF's test scheduler, with
// modelled executors on a virtual clock. A seed decides in which order messages arrive, how long everything takes and
// what goes wrong; the same seed gives the same run, to the last message. Needs no Torch, no text and no threads.
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
  std::chrono::nanoseconds stall_after{50'000'000};  ///< silence; see `patience` of actors/silence.hpp
  std::chrono::nanoseconds work_min{150'000'000};    ///< its least limit for lanes at work
  uint32_t window = window_instructions;
  uint64_t overflow_in_run = 0;  ///< that run's gradient is not finite and its update skipped; 0: none
  sim_fault fault;
};

/// What one order came to.
struct sim_run {
  plan::plan_choice which = plan::plan_choice::train;
  run_outcome outcome;     ///< `failure` says how it ended
  double seconds = 0;      ///< virtual, from order to answer
  int64_t ended_ns = 0;    ///< when the answer came, by the log's clock
  double predicted_s = 0;  ///< by plan::predict
  double patience_s = 0;   ///< for a lane at work, at most
};

struct sim_result {               ///< what happened in it
  std::vector<sim_run> runs;      ///< as ordered; ends with the first that failed
  std::vector<sim_event> log;     ///< all lanes of all ranks, in the order in which things happened
  std::vector<std::string> told;  ///< what ranks told the host while they waited for a disk or the loader
  bool fault_struck = false;
  double fault_at_s = 0;  ///< virtual, since the start of the run in which it struck
  uint64_t messages = 0;
  uint64_t schedule = 0;  ///< equal numbers mean equal orders of messages
};

/// Runs `order`'s plans one after the other. `plans` holds, by plan_choice, those of all ranks; lists that are not
/// ordered may be empty. The host stops a run that it is told of waiting for a silent disk. Errors (kind `bug`): a run
/// gave no answer within 4 x its patience of nothing happening, a failed company did not come to rest, or a second
/// order after a failure was not refused with the same words.
core::result<sim_result> simulate(const std::vector<shared_rank_plans>& plans,
                                  const std::vector<plan::plan_choice>& order, const sim_options& options);

/// Proves from the log that the runs did what their plans say: every instruction once (at most once where the run
/// failed), lanes in order, dependencies and collectives respected, no lane beyond its window. The error names the
/// instruction.
core::result<void> check_log(const std::vector<shared_rank_plans>& plans, const sim_result& result, uint32_t window);

/// Proves that the runs ended as the fault demands: well, however long somebody was frozen, or soon with one error of
/// the right kind that names the rank, after which no lane starts anything.
core::result<void> check_ending(const sim_result& result, const sim_options& options, size_t num_ordered);

/// A fault of any kind somewhere in these runs. Who is frozen at work is so for less than three times `stall_after`,
/// which the world's `work_min` has to allow.
sim_fault draw_fault(uint64_t seed, const std::vector<shared_rank_plans>& plans,
                     const std::vector<plan::plan_choice>& order, std::chrono::nanoseconds stall_after);

}  // namespace troupe::actors
