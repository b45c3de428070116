// Simulates a run without hardware: the production actors (supervisor, node agent, ranks, lanes, loader) run under
// CAF's test scheduler, with modelled executors on a virtual clock. A seed decides the order of messages, all durations
// and the fault; the same seed gives the same run, to the last message. Needs no Torch, no text and no threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/messages.hpp"
#include "actors/program.hpp"
#include "actors/sim/fault.hpp"
#include "core/error.hpp"
#include "fabric/linear_link.hpp"
#include "fabric/linear_link.hpp"
#include "plan/choose/cost.hpp"
#include "plan/plan_choice.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

using shared_rank_plans = std::vector<std::shared_ptr<const plan::rank_plan>>;  // plans of all ranks, by rank

struct sim_options {  ///< options of a simulation
  uint64_t seed = 0;
  plan::cost_model costs;
  fabric::linear_link link;                ///< network link whose latency and bandwidth all collectives have
  std::vector<fabric::linear_link> links;  ///< [communicator]: link of its collectives; empty: all have `link`
  /// [communicator]: true: its collectives take the times of plan::predict(), by `costs`, and not those of the link;
  /// empty: none does.
  std::vector<bool> predicted_collectives;
  /// [communicator]: times of its collectives by kind and bytes, before all of the above; those of a communicator, or
  /// all, may be empty.
  std::vector<fabric::operation_curves> curves;
  /// Largest latency of a message, which is drawn between 0 and this time.
  std::chrono::nanoseconds latency_max{80'000};
  /// Noise of the times: an instruction takes [1, 1 + noise) times its predicted time.
  double noise = 0.5;
  std::chrono::nanoseconds stall_after{50'000'000};  ///< limit for waiting ranks (patience::stall_after)
  std::chrono::nanoseconds work_min{150'000'000};    ///< least limit for working ranks
  /// True: every message takes half of `latency_max`, at least 1 ns, and the seed decides nothing but the noise. Ranks
  /// that do the same then do it at the same nanosecond. Blocks that are handed to the disk at one moment are all
  /// written when the last one is.
  bool even_messages = false;
  /// [rank]: the rank whose actors act for it, too, and which acts for itself. Only acting ranks have plans and are in
  /// the log. Every communicator of an acting rank has the ranks that act for its other members as members. Requires
  /// even messages without noise, faults of acting ranks, and no late message or bad vote. Empty: all ranks act for
  /// themselves.
  std::vector<uint32_t> acted_by;
  uint32_t window = window_instructions;
  /// Number of the run whose gradient is not finite and whose update is skipped; 0: none.
  uint64_t overflow_in_run = 0;
  uint64_t clip_in_run = 0;  ///< number of the run whose gradient norm is above modelled_norm_limit; 0: none
  sim_fault fault;
  std::vector<sim_fault> further_faults;  ///< faults besides `fault`; check_ending() knows only that one
};

/// The result of one run of a plan in a simulation.
struct sim_run {
  plan::plan_choice which = plan::plan_choice::train;
  run_outcome outcome;     ///< outcome of the run; its `failure` is the run's error, if the run failed
  double seconds = 0;      ///< virtual seconds from the order to the result of the run
  int64_t began_ns = 0;    ///< virtual time of the run's order, by the clock of the log
  int64_t ended_ns = 0;    ///< virtual time of the run's result, by the clock of the log
  double predicted_s = 0;  ///< seconds that plan::predict() computes for the run's plans
  double patience_s = 0;   ///< time in seconds without progress after which a working lane counts as stalled
};

struct sim_result {               ///< result of a simulation: the outcome of each run
  std::vector<sim_run> runs;      ///< results of the runs in their order; the last one may have failed
  std::vector<sim_event> log;     ///< starts and ends of instructions on all lanes of all ranks, in order
  std::vector<std::string> told;  ///< warnings of ranks that waited for a disk or the loader
  bool fault_struck = false;
  double fault_at_s = 0;           ///< virtual seconds from the start of the run in which the fault happened
  std::vector<int64_t> struck_ns;  ///< [`fault`, then the further ones]: virtual time of the fault; -1: did not happen
  int64_t began_ns = 0;            ///< virtual time at which the first run was ordered, by the clock of the log
  uint64_t messages = 0;
  uint64_t schedule = 0;  ///< hash of the order of all message deliveries: equal numbers mean the same order
};

/// Runs the plans of the kinds in `order` one after the other. `plans` holds, by plan_choice, the plans of all ranks,
/// null for those that other ranks act for; kinds that are not in `order` may be empty. If a rank reports that the run
/// waits for a disk that does not respond, the simulation stops the run. No fault happens after the last run has ended.
/// Errors (kind `bug`): a run has no result after 4 times its patience_s without an event, the actors of a failed run
/// did not become idle, or an order after a failure was not refused with the same words; kind `bad_input`: no order, a
/// kind in `order` without plans, plans that are not those of all ranks of one job, invalid options.
core::result<sim_result> simulate(const std::vector<shared_rank_plans>& plans,
                                  const std::vector<plan::plan_choice>& order, const sim_options& options);

/// Checks from the log that the runs followed their plans: every instruction ran once (at most once if the run failed),
/// lanes started instructions in order, dependencies and collectives were respected, and no lane started more
/// instructions ahead than `window` permits. `acted_by`: sim_options::acted_by of the simulation. The error names the
/// instruction; `bad_input`: runs of a kind without plans.
core::result<void> check_log(const std::vector<shared_rank_plans>& plans, const sim_result& result, uint32_t window,
                             const std::vector<uint32_t>& acted_by = {});

/// Checks that the runs ended as the injected fault requires: either well, however long a freeze was, or soon after the
/// fault, with one error of the right kind that names the rank, after which no lane starts an instruction.
/// `num_ordered`: number of runs that were ordered.
core::result<void> check_ending(const sim_result& result, const sim_options& options, size_t num_ordered);

/// Returns a random fault at a random place in these runs; none if there are no runs, or a run is of a kind without
/// plans. A lane that could work is frozen for less than three times `stall_after`, so `sim_options::work_min` must be
/// at least that.
sim_fault draw_fault(uint64_t seed, const std::vector<shared_rank_plans>& plans,
                     const std::vector<plan::plan_choice>& order, std::chrono::nanoseconds stall_after);

}  // namespace troupe::actors
