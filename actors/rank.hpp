// The rank actor: owns the plans of one rank and the run in hand. Hands the lanes their windows, fetches batches,
// and notices when nothing happens any more. Computes nothing.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/lane.hpp"

namespace troupe::actors {

/// Instructions a lane may be ahead of what it has reported; several times progress_batch, so lanes never wait for it.
inline constexpr uint32_t window_instructions = 64;
/// How long the loader may take for one batch.
inline constexpr std::chrono::seconds batch_timeout{60};

struct rank_setup {  ///< what a rank is told once
  uint32_t rank = 0;
  std::vector<std::shared_ptr<const program>> programs;  ///< [plan_choice]
  scaling_rules rules;
  std::chrono::nanoseconds stall_after{std::chrono::seconds{5}};
  uint32_t window = window_instructions;  ///< at least progress_batch, or a lane would wait for a report it owes
  /// Who has not arrived at a collective: what a stall report names. Callable from any thread.
  std::function<std::vector<uint32_t>(uint64_t sequence)> missing;
};

struct rank_state {        ///< what a rank keeps between messages
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
  uint32_t window[plan::num_lanes] = {}, ended[plan::num_lanes] = {};
  bool running = false, failed = false;
  plan_choice which = plan_choice::train;
  uint64_t seen_ended = 0;
  caf::actor_clock::time_point quiet_since;
};

/// For `spawn`: a rank, whose lanes are in `links` by its first message.
rank_actor::behavior_type rank_impl(rank_actor::stateful_pointer<rank_state> self, rank_setup setup,
                                    std::shared_ptr<rank_links> links, node_agent_actor agent, loader_actor loader);

/// Pure: what each lane of a stuck run waits for, in one sentence.
std::string explain_stall(const step_context& context, const std::function<std::vector<uint32_t>(uint64_t)>& missing);

}  // namespace troupe::actors
