// The rank actor: owns the plans of one rank and the current run. Gives the lanes their windows, fetches batches, and
// checks now and then whether anything still happens (silence.hpp). Computes nothing.
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

/// Instructions that a lane may be ahead of its last report; several times progress_batch, so lanes never wait for it.
inline constexpr uint32_t window_instructions = 64;

/// The programs that a rank can run, by plan_choice. The session fills an entry before the first run of its kind and
/// never changes it.
using rank_programs = std::array<std::shared_ptr<const program>, plan::num_plan_choices>;

struct rank_setup {  ///< a rank's constants
  uint32_t rank = 0;
  std::shared_ptr<const rank_programs> programs;
  job::scaling_rules rules;
  actors::patience patience;
  uint32_t window = window_instructions;  ///< at least progress_batch, or a lane would wait for a report it owes
  missing_members
      missing;        ///< tells whether a collective waits for this rank or for peers; named in reports of a stall
  vote_memory votes;  ///< of all its runs; empty: each run has plain memory
  std::shared_ptr<pulse_board> pulses;  ///< of all ranks; null: this one runs alone
  /// Called on the rank's thread when a run has ended well, before anyone is told. May be empty.
  std::function<void(step_context&)> ended;
  /// Called on the rank's thread when the run waits longer than usual for a disk or the loader, which have no limit.
  /// May be empty.
  std::function<void(const std::string&)> tell;
};

struct rank_state {        ///< a rank's state between messages
  rank_state() = default;  // no aggregate: CAF would try to initialise its first member with the actor
  /// Runs when the actor ends, however it ends: its lanes start nothing more.
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
  std::vector<uint32_t> window, ended;  ///< [seat]
  bool running = false, failed = false;
  plan::plan_choice which = plan::plan_choice::train;
  silence_clock clock;
  bool looks = false;                        ///< a look_around is under way
  int64_t look_due_ns = 0;                   ///< when it should come
  int looks_left = looks_per_stall;          ///< that another rank has to report a stall before this one does
  std::chrono::nanoseconds longest_work{0};  ///< instruction of the steps so far
};

/// For `spawn`: a rank, whose lanes are in `links` by its first message.
rank_actor::behavior_type rank_impl(rank_actor::stateful_pointer<rank_state> self, rank_setup setup,
                                    std::shared_ptr<rank_links> links, node_agent_actor agent, loader_actor loader);

}  // namespace troupe::actors
