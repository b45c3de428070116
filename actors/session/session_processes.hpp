// State of a session that concerns the other processes of its job. Part of parts.hpp.
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

/// The other processes of the job. Each new term writes this struct; a save in memory writes its counters.
struct session_processes {
  /// Link to the other processes of the job; null: all ranks are in this process.
  std::shared_ptr<cluster::process> link;
  std::shared_ptr<const config::job_config> job;  ///< the job as it was loaded, with the largest degrees
  std::optional<term_members> members;            ///< processes of the current term; none: there is no term
  std::string secret;                             ///< secret of the term, if it spans machines
  std::shared_ptr<shared_term> shared;
  std::unique_ptr<memory_saves> saves;
  /// Receives parts of saves from other processes; shared with the link's callbacks.
  std::shared_ptr<part_taker> parts;
  std::vector<uint64_t> peak_bytes;    ///< [rank]: peak bytes of activations, as the other processes have reported
  std::shared_ptr<save_job> kept;      ///< the save in memory that is being made
  std::filesystem::path working;       ///< folder of `kept`, until it is committed
  std::weak_ptr<const void> recorded;  ///< session_recording::last_step at the begin of the save `kept`
  std::optional<uint64_t> kept_step;   ///< number of steps done at the newest save in memory; none: no such save
  bool keeping_fails = false;          ///< true: the last save in memory failed
  /// Left-out samples of the next term, in place of those in the states that it begins with; none: those in the states.
  std::optional<std::vector<core::left_out_steps>> left_out;
  std::function<core::result<resume_choice>(bool again)> choose_resume;
  /// Passes that changed the steps of this term and of later terms at the same degrees; none: the configuration's first
  /// passes.
  std::optional<chosen_passes> passes;
  uint32_t passes_data = 0;  ///< number of data ranks that `passes` were chosen for
  /// Schedule of passes in place of the configuration's; none: no host gave one.
  std::optional<std::vector<told_schedule>> schedule;
  /// True: this process has found the folder of outputs that the leading process writes into.
  bool has_seen_output = false;
  bool has_led = false;  ///< true: this process led the previous term
  recovery_counts counts;
  slow_links links;  ///< slow links of this term
  /// Text that names both ends of each slow link that was reported, without repeats; the warning at the end of the run
  /// lists them.
  std::vector<std::string> slow_link_ends;
  std::vector<slow_link_report> slow_links_untold;  ///< reports of slow links whose hooks have not been called yet

  [[nodiscard]] bool is_on() const { return link != nullptr; }
  [[nodiscard]] bool is_here(uint32_t rank) const { return !members || members->is_here(rank); }
  [[nodiscard]] bool leads() const { return !is_on() || (members && members->leads()); }
};

}  // namespace troupe::actors
