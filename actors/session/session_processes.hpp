// What a session knows of the other processes of its job. Part of parts.hpp.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/processes/calls.hpp"
#include "actors/processes/memory_saves.hpp"
#include "actors/processes/node_local_files.hpp"
#include "actors/processes/part_taker.hpp"
#include "actors/processes/shared_term.hpp"
#include "actors/processes/slow_links.hpp"
#include "actors/saving/save_job.hpp"
#include "actors/session/session.hpp"
#include "cluster/process.hpp"
#include "core/left_out_steps.hpp"

namespace troupe::actors {

/// The other processes of the job. Each new term writes it, a save in memory its counters.
struct session_processes {
  std::shared_ptr<cluster::process> link;         ///< null: all ranks live here
  std::shared_ptr<const config::job_config> job;  ///< as it was loaded: its degrees are the most
  std::optional<term_members> members;            ///< none: no term
  std::string secret;                             ///< of the term, where it spans machines
  std::shared_ptr<shared_term> shared;
  std::unique_ptr<memory_saves> saves;
  std::shared_ptr<part_taker> parts;   ///< also of who listens
  std::vector<uint64_t> peak_bytes;    ///< [rank]: of activations, as the other processes have told
  std::shared_ptr<save_job> kept;      ///< a save in memory that is being written
  std::filesystem::path working;       ///< of `kept`, until it is committed
  std::weak_ptr<const void> recorded;  ///< session_recording::last_step as `kept` was begun
  std::optional<uint64_t> kept_step;   ///< steps done of the newest save in memory; none: there is none
  bool keeping_fails = false;          ///< the last save in memory has failed
  /// Of the next term, instead of what the states that it begins with say; none: that.
  std::optional<std::vector<core::left_out_steps>> left_out;
  std::function<core::result<resume_choice>(bool again)> choose_resume;
  /// That changed the steps of this term and of later ones at the same degrees; none: the configuration's first.
  std::optional<chosen_passes> passes;
  uint32_t passes_data = 0;                            ///< data ranks that `passes` were chosen for
  std::optional<std::vector<told_schedule>> schedule;  ///< in place of the configuration's; none: no host gave one
  bool has_seen_output = false;  ///< the folder of outputs that the process which leads writes into
  bool has_led = false;          ///< the term before
  recovery_counts counts;
  slow_links links;                                 ///< of this term
  std::vector<std::string> slow_link_ends;          ///< that were named, for the end of the run: each once
  std::vector<slow_link_report> slow_links_untold;  ///< of steps whose hooks are still to be called

  [[nodiscard]] bool is_on() const { return link != nullptr; }
  [[nodiscard]] bool is_here(uint32_t rank) const { return !members || members->is_here(rank); }
  [[nodiscard]] bool leads() const { return !is_on() || (members && members->leads()); }
};

}  // namespace troupe::actors
