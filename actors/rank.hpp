// The rank actor: owns the plans of one rank and the current run. Allows its lanes to start further instructions,
// requests micro-batches from the loader, and regularly checks whether instructions still end (silence.hpp). Computes
// nothing.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/lane.hpp"
#include "actors/silence.hpp"
#include "plan/plan_choice.hpp"

namespace troupe::actors {

/// [plan_choice, the kind of a run]: program that the rank executes in runs of this kind. The session sets or replaces
/// entries only between runs.
using rank_programs = std::array<std::shared_ptr<const program>, plan::num_plan_choices>;

struct rank_setup {  ///< setup of a rank actor, constant after its spawn
  uint32_t rank = 0;
  std::shared_ptr<const rank_programs> programs;
  job::scaling_rules rules;
  actors::patience patience;
  /// Number of instructions that a lane may start beyond those that it has reported as ended; at least progress_batch,
  /// because a lane reports only after that many.
  uint32_t window = window_instructions;
  missing_members missing;  ///< returns the ranks that a collective waits for, to be named in reports of a stall
  vote_memory votes;        ///< memory for the votes of all runs; empty: each run allocates its own
  std::shared_ptr<pulse_board> pulses;  ///< shows all ranks' progress; null: no other rank is watched
  /// Called when a run of this rank has completed without an error, before the rank reports that. May be empty.
  std::function<void(step_context&)> ended;
  /// Called with a text if a run waits longer than usual for a disk or the loader, a wait that has no limit, or if
  /// another rank is lost. May be empty.
  std::function<void(const std::string&)> tell;
};

struct rank_state {        ///< a rank's state between messages
  rank_state() = default;  // not an aggregate: CAF would try to initialise its first member with the actor
  /// When the actor ends during a run, for any reason, sets step_context::aborted, so that the lanes start no further
  /// instruction.
  ~rank_state() {
    if (running) context->aborted = true;
  }
  static inline const char* name = "rank";

  rank_setup setup;
  std::shared_ptr<rank_links> links;
  node_agent_actor agent;
  loader_actor loader;
  std::shared_ptr<step_context> context;
  sequencer control;
  /// [seat, the number of a lane actor]: number of instructions of the run that the lane actor may have started, and
  /// number that have ended.
  std::vector<uint32_t> window, ended;
  bool running = false, failed = false;
  plan::plan_choice which = plan::plan_choice::train;
  silence_clock clock;
  /// True: the rank has sent itself a delayed look_around, which checks for a stall, and the message has not arrived.
  bool looks = false;
  int64_t look_due_ns = 0;           ///< time at which the look_around message in progress is due
  int looks_left = looks_per_stall;  ///< further checks in which another rank may report a stall
  std::chrono::nanoseconds longest_work{0};  ///< duration of the longest instruction of the steps so far
};

/// Makes the behavior of a rank, for `spawn`. The lanes must be in `links` by its first message.
rank_actor::behavior_type rank_impl(rank_actor::stateful_pointer<rank_state> self, rank_setup setup,
                                    std::shared_ptr<rank_links> links, node_agent_actor agent, loader_actor loader);

}  // namespace troupe::actors
