// The rank actor: owns the plans of one rank and the current run. Extends the windows of its lanes, fetches batches,
// and regularly checks whether instructions still end (silence.hpp). Computes nothing.
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

/// Number of instructions that a lane may start ahead of its last report; several times progress_batch, so that lanes
/// never wait for the extension of their window.
inline constexpr uint32_t window_instructions = 64;

/// The programs that a rank can run, by plan_choice. The session sets an entry before the first run of its kind and
/// never changes it.
using rank_programs = std::array<std::shared_ptr<const program>, plan::num_plan_choices>;

struct rank_setup {  ///< constants of a rank
  uint32_t rank = 0;
  std::shared_ptr<const rank_programs> programs;
  job::scaling_rules rules;
  actors::patience patience;
  /// Instructions that a lane may start ahead of its last report; at least progress_batch, because a lane reports only
  /// after that many.
  uint32_t window = window_instructions;
  missing_members missing;  ///< returns the ranks that a collective waits for, which reports of a stall name
  vote_memory votes;        ///< memory for the votes of all runs; empty: each run has plain memory
  std::shared_ptr<pulse_board> pulses;  ///< pulses of all ranks; null: this rank runs alone
  /// Called on the rank's thread when a run has ended well, before the end is reported. May be empty.
  std::function<void(step_context&)> ended;
  /// Called on the rank's thread when the run waits longer than usual for a disk or the loader; such a wait has no
  /// limit. May be empty.
  std::function<void(const std::string&)> tell;
};

struct rank_state {        ///< a rank's state between messages
  rank_state() = default;  // not an aggregate: CAF would try to initialise its first member with the actor
  /// Sets `aborted` when the actor ends, for any reason, so that its lanes start nothing more.
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
  /// Number of instructions that a seat may have started, and number that have ended, by seat
  std::vector<uint32_t> window, ended;
  bool running = false, failed = false;
  plan::plan_choice which = plan::plan_choice::train;
  silence_clock clock;
  /// True: the delayed look_around message, which checks for a stall, has been sent and has not arrived.
  bool looks = false;
  int64_t look_due_ns = 0;           ///< time at which the look_around message in progress is due
  int looks_left = looks_per_stall;  ///< number of further checks in which another rank may report a stall first
  std::chrono::nanoseconds longest_work{0};  ///< duration of the longest instruction of the steps so far
};

/// Makes the behavior of a rank, for `spawn`. The lanes must be in `links` by its first message.
rank_actor::behavior_type rank_impl(rank_actor::stateful_pointer<rank_state> self, rank_setup setup,
                                    std::shared_ptr<rank_links> links, node_agent_actor agent, loader_actor loader);

}  // namespace troupe::actors
