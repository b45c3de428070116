// Owns a run's view of the other processes of its job: which ranks are in this process, and what the processes must do
// together. The class `peers` implements a job of one process; process_peers.hpp implements a job of several.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/loading/load_options.hpp"
#include "actors/memory/offload_request.hpp"
#include "actors/memory/shared_pools.hpp"
#include "actors/messages.hpp"
#include "actors/opening/opening.hpp"
#include "actors/processes/calls.hpp"
#include "actors/run/options.hpp"
#include "actors/saving/save_job.hpp"
#include "checkpoint/files/file_system.hpp"
#include "fabric/communicator.hpp"
#include "job/blueprint.hpp"
#include "job/changed_steps.hpp"

namespace troupe::actors {

struct training_run;
class pulse_board;

/// Joins a rank of this process to a communicator of the layout, as its `member`-th.
using fabric_join = std::function<std::shared_ptr<fabric::communicator>(uint32_t communicator, uint32_t member,
                                                                        const fabric::waker& wake)>;

/// Makes the peers of a run that is being opened with these options.
using peers_maker = std::function<std::unique_ptr<class peers>(training_run&, const session_options&)>;

class peers {
 public:
  explicit peers(training_run& run) : run_(run) {}
  virtual ~peers() = default;
  peers(const peers&) = delete;
  peers& operator=(const peers&) = delete;

  /// Begins the first term in which this process has ranks. Errors: those of term_maker::begin; the run is over.
  virtual core::result<void> begin(const session_options& options, opening_watch& watch);

  // ---- functions that say which process this is and which ranks it has
  /// True if ranks of the job are in other processes, too.
  [[nodiscard]] virtual bool are_there() const { return false; }
  /// True if this process leads: its host calls the steps.
  [[nodiscard]] virtual bool leads() const { return true; }
  [[nodiscard]] virtual bool is_here(uint32_t /*rank*/) const { return true; }
  /// Returns for each rank of the job whether it is in this process.
  [[nodiscard]] virtual ranks_here here() const;
  /// Returns the number of ranks that this process will have of `ranks`.
  [[nodiscard]] virtual uint32_t share_of(uint32_t ranks, const config::job_config& /*config*/) const { return ranks; }
  /// Returns the folder within `folder` for swap files of this process.
  [[nodiscard]] virtual std::filesystem::path own_folder(const std::filesystem::path& folder) const { return folder; }
  /// Returns the peak bytes of activations of a rank in another process, as that process has reported.
  [[nodiscard]] virtual uint64_t peak_bytes(uint32_t /*rank*/) const { return 0; }

  // ---- functions that share resources between the ranks of a term
  /// Shares segments of memory with other processes; `segment_bytes` by rank. Errors: limit; the term has ended.
  virtual core::result<void> share(const std::vector<uint64_t>& /*segment_bytes*/) { return {}; }
  /// Returns the shared segment of a rank; nothing if the rank's memory is its own.
  [[nodiscard]] virtual std::optional<shared_segment> segment_of(uint32_t /*rank*/) const { return std::nullopt; }
  /// Returns a function that joins ranks to communicators; valid while the term's memory exists.
  [[nodiscard]] virtual fabric_join fabric() const;
  /// Shows the pulses of ranks to other processes; `stall_after`: the longest time without progress.
  virtual core::result<void> show_pulses(const std::shared_ptr<pulse_board>& /*board*/,
                                         std::chrono::nanoseconds /*stall_after*/) {
    return {};
  }

  // ---- functions that make all processes work
  /// Runs a plan on the ranks of all processes. Errors: the run, or its term, is over.
  virtual core::result<run_outcome> run(plan::plan_choice which, const std::shared_ptr<step_order>& order);
  /// Sends the masks of pruned modules; does nothing in a process that does not lead.
  virtual void tell_masks(std::vector<std::vector<uint8_t>> /*masks*/) {}
  /// Loads a checkpoint between two steps; resumer::resume describes this.
  virtual core::result<std::filesystem::path> load(const std::filesystem::path& path, const load_options& options);
  /// Moves the states that `request` selects out of memory, to its destination; `reload` moves them back.
  virtual core::result<offload_report> offload(const offload_request& request);
  virtual core::result<void> reload();
  /// Asks all processes for their names of the checkpoint that is being saved (`checkpoint.tag_validation`).
  virtual core::result<void> check_tags(const std::string& /*mine*/) { return {}; }
  /// Called after a save has ended: tells other machines to keep their parts of it.
  virtual void tell_saved(const save_job& /*save*/, const save_report& /*report*/) {}
  /// Returns the files of checkpoints that disks of several machines hold; null if the files are in one folder.
  [[nodiscard]] virtual std::unique_ptr<checkpoint::file_system> files_of_machines() const { return nullptr; }

  // ---- functions for saves in memory, which a run continues from after a loss
  /// Begins to copy the current states to memory while the next step runs, if a save in memory is due. Call before a
  /// training step.
  virtual core::result<void> begin_save_in_memory() { return {}; }
  /// Returns the save in memory that is being made; null: none.
  [[nodiscard]] virtual std::shared_ptr<save_job> save_in_memory() const { return nullptr; }
  /// Waits for the save in memory that ran during a step. Call before the program that embeds the session is notified
  /// of that step: a process that is lost later then costs no more than this step. Errors: a process was lost before
  /// the save was complete.
  virtual core::result<void> end_save_in_memory() { return {}; }
  /// Saves the current states in memory now, and waits.
  virtual core::result<void> save_in_memory_now() { return {}; }
  /// Returns the number of steps done at the newest save in memory; none: no such save.
  [[nodiscard]] virtual std::optional<uint64_t> saved_in_memory() const { return std::nullopt; }
  /// Goes back to the newest save in memory by beginning another term. `why`: the cause of that term. Call only after
  /// a save in memory.
  virtual core::result<void> go_back_in_memory(std::vector<core::left_out_steps> left_out, const std::string& why);

  // ---- functions for passes over the step plan
  /// Begins another term whose training step has these options, because they need other shared memory. Returns false
  /// if the run changes its plans within the term.
  virtual core::result<bool> take_passes(const plan::plan_options& /*train*/) { return false; }
  /// Sends a schedule of passes from the embedding program to the other processes.
  virtual void tell_schedule(std::vector<told_schedule> /*schedule*/) {}

  // ---- functions that change terms and recover from losses
  /// Ends the term if processes wait to join. Call between two steps.
  virtual core::result<void> let_join() { return {}; }
  /// Continues the job at other degrees, between two steps.
  virtual core::result<void> change_degrees(std::shared_ptr<const config::job_config> next);
  /// Marks the run as over if the term has ended. Call after a failure: a save or a read that waits for another
  /// process's bytes fails without an error of any rank.
  virtual void note_loss() {}
  /// Recovers to the state after `steps` steps. `begin_ns`: the begin of the interrupted work. Errors: `why`, if there
  /// is no other term; the run is then over.
  virtual core::result<void> recover_to(uint64_t /*steps*/, const core::error& why, int64_t /*begin_ns*/) {
    return core::fail(why);
  }
  /// True if processes were lost since the last call.
  [[nodiscard]] virtual bool has_losses() const { return false; }
  /// Recovers from losses, if there were any.
  virtual core::result<void> recover() { return {}; }
  /// Executes calls of the leading process until this one leads.
  virtual core::result<void> serve() { return {}; }
  [[nodiscard]] virtual const recovery_counts& counts() const;

  // ---- functions for diagnosis and warnings
  /// Returns the reports of slow links whose hooks have not been called yet, once.
  virtual std::vector<slow_link_report> take_slow_links() { return {}; }
  /// Returns a warning that names the slow links of the whole run; empty: none.
  [[nodiscard]] virtual std::string slow_links_of_run() const { return {}; }
  /// Adds to a diagnosis between runs which processes have not answered.
  virtual void explain_waits(std::vector<rank_diagnosis>& /*all*/) const {}

  /// close_line detaches the handlers that use the run, and end ends sharing with other processes; called in this order
  /// when the session ends, before and after the actors end.
  virtual void close_line() {}
  virtual void end() {}

 protected:
  training_run& run_;
};

}  // namespace troupe::actors
