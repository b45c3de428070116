// Defines a run's view of the other processes of its job: which ranks are in this process, and operations that all
// processes must perform together. The class `peers` implements a job of one process; process_peers.hpp implements a
// job of several. A term is the time in which processes, ranks and degrees stay the same.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/loading/load_options.hpp"
#include "actors/memory/offload_request.hpp"
#include "actors/memory/shared_pools.hpp"
#include "actors/messages.hpp"
#include "actors/opening/opening.hpp"
#include "actors/processes/calls.hpp"
#include "actors/run/options.hpp"
#include "actors/saving/save_job.hpp"
#include "fabric/communicator.hpp"
#include "job/blueprint.hpp"
#include "job/changed_steps.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::actors {

struct training_run;
class pulse_board;

/// Function that makes a rank of this process the `member`-th member of a communicator; `wake` is called when a
/// collective can continue.
using fabric_join = std::function<std::shared_ptr<fabric::communicator>(uint32_t communicator, uint32_t member,
                                                                        const fabric::waker& wake)>;

/// Function that makes the object `peers` for a run that is being opened with these options.
using peers_maker = std::function<std::unique_ptr<class peers>(training_run&, const session_options&)>;

class peers {
 public:
  explicit peers(training_run& run) : run_(run) {}
  virtual ~peers() = default;
  peers(const peers&) = delete;
  peers& operator=(const peers&) = delete;

  /// Begins the first term in which this process has ranks. Errors: those of term_maker::begin; the run has ended.
  virtual core::result<void> begin(const session_options& options, opening_watch& watch);

  // ---- functions that say which process this is and which ranks it has

  /// True if ranks of the job are in other processes, too.
  [[nodiscard]] virtual bool are_there() const { return false; }
  /// True if this process leads the job: its host program calls the steps; other processes serve it.
  [[nodiscard]] virtual bool leads() const { return true; }
  [[nodiscard]] virtual bool is_here(uint32_t /*rank*/) const { return true; }
  /// Returns for each rank of the job whether it is in this process.
  [[nodiscard]] virtual ranks_here here() const;
  /// Returns how many of the job's `ranks` ranks this process will have.
  [[nodiscard]] virtual uint32_t share_of(uint32_t ranks, const config::job_config& /*config*/) const { return ranks; }
  /// Returns the folder within `folder` for swap files of this process.
  [[nodiscard]] virtual std::filesystem::path own_folder(const std::filesystem::path& folder) const { return folder; }
  /// Returns the peak bytes of activations of a rank in another process, as that process has reported.
  [[nodiscard]] virtual uint64_t peak_bytes(uint32_t /*rank*/) const { return 0; }

  // ---- functions that share resources between the ranks of a term

  /// Makes the shared memory segments of this process's ranks, and maps those of other processes. `segment_bytes`: size
  /// of each rank's segment. Errors: limit; the term (time with the same processes) has ended.
  virtual core::result<void> share(const std::vector<uint64_t>& /*segment_bytes*/) { return {}; }
  /// Returns the shared memory segment of a rank; nothing if the rank's memory is not shared.
  [[nodiscard]] virtual std::optional<shared_segment> segment_of(uint32_t /*rank*/) const { return std::nullopt; }
  /// Returns a function that makes ranks members of communicators; valid while the term's memory exists.
  [[nodiscard]] virtual fabric_join fabric() const;
  /// Starts to show the pulses (progress) of this process's ranks to other processes, and the pulses of all other ranks
  /// on `board`. `stall_after`: time without progress after which a wait counts as a stall.
  virtual core::result<void> show_pulses(const std::shared_ptr<pulse_board>& /*board*/,
                                         std::chrono::nanoseconds /*stall_after*/) {
    return {};
  }

  // ---- functions that make all processes work

  /// Runs a plan once on the ranks of all processes. Errors: the run, or its term, has ended.
  virtual core::result<run_outcome> run(plan::plan_choice which, const std::shared_ptr<step_order>& order);
  /// Sends the masks of all pruned modules to the other processes; does nothing in a process that does not lead.
  virtual void tell_masks(std::vector<std::vector<uint8_t>> /*masks*/) {}
  /// Loads a checkpoint between two steps on all processes, as resumer::resume does in one process, and returns its
  /// folder.
  virtual core::result<std::filesystem::path> load(const std::filesystem::path& path, const load_options& options);
  /// Moves the states that `request` selects out of memory, to its destination; `reload` moves them back.
  virtual core::result<offload_report> offload(const offload_request& request);
  virtual core::result<void> reload();
  /// Checks that all processes have the same name for the checkpoint that is being saved, `mine` in this process
  /// (`checkpoint.tag_validation`).
  virtual core::result<void> check_tags(const std::string& /*mine*/) { return {}; }
  /// Call after a save has ended: makes the other machines keep the files of the checkpoint that are on their disks.
  virtual void tell_saved(const save_job& /*save*/, const save_report& /*report*/) {}
  /// Returns a file system for checkpoints whose files are on disks of several machines; null if the files are in one
  /// folder.
  [[nodiscard]] virtual std::unique_ptr<storage::file_system> files_of_machines() const { return nullptr; }

  // ---- functions for saves in memory, which a run continues from after a loss

  /// Begins to copy the current states to memory while the next step runs, if a save in memory is due. Call before a
  /// training step.
  virtual core::result<void> begin_save_in_memory() { return {}; }
  /// Returns the save in memory that is being made; null: none.
  [[nodiscard]] virtual std::shared_ptr<save_job> save_in_memory() const { return nullptr; }
  /// Waits until the save in memory that was made during a step is complete. Call before the host program is
  /// notified of that step, so that the loss of a process afterwards costs no more than one step. Errors: a process was
  /// lost before the save was complete.
  virtual core::result<void> end_save_in_memory() { return {}; }
  /// Makes a save in memory of the current states, and waits until it is complete.
  virtual core::result<void> save_in_memory_now() { return {}; }
  /// Returns the number of steps done at the newest save in memory; none: no such save.
  [[nodiscard]] virtual std::optional<uint64_t> saved_in_memory() const { return std::nullopt; }
  /// Returns to the newest save in memory by beginning another term (time with the same processes), in which the
  /// samples `left_out` are left out. `why`: the cause of that term. Call only if there is a save in memory.
  virtual core::result<void> go_back_in_memory(std::vector<core::left_out_steps> left_out, const std::string& why);

  // ---- functions for passes over the step plan

  /// If the options `train` of the training step need shared memory of other sizes, begins another term (time with the
  /// same processes) with them and returns true. Returns false if the run can change its plans within the term.
  virtual core::result<bool> take_passes(const plan::plan_options& /*train*/) { return false; }
  /// Sends to the other processes the schedule of passes that the host program has set.
  virtual void tell_schedule(std::vector<told_schedule> /*schedule*/) {}

  // ---- functions that change terms and recover from losses

  /// Ends the term if processes wait to join. Call between two steps.
  virtual core::result<void> let_join() { return {}; }
  /// Continues the job with the parallel degrees of `next` from the next step on. Call between two steps.
  virtual core::result<void> change_degrees(std::shared_ptr<const config::job_config> next);
  /// Marks the run as ended if the term (time with the same processes) has ended. Call after a failure: a save or a
  /// read that waits for bytes of a lost process fails although no rank reports an error.
  virtual void note_loss() {}
  /// Begins another term (time with the same processes) after a loss or for a requested change, and repeats steps until
  /// `steps` are done. `why`: the cause. `begin_ns`: time at which the interrupted work began. Errors: `why`, if no
  /// other term can begin; the run has then ended.
  virtual core::result<void> recover_to(uint64_t /*steps*/, const core::error& why, int64_t /*begin_ns*/) {
    return core::fail(why);
  }
  /// True if processes were lost from which recover() has not recovered yet.
  [[nodiscard]] virtual bool has_losses() const { return false; }
  /// Recovers from losses, if there were any.
  virtual core::result<void> recover() { return {}; }
  /// Executes the requests of the leading process until this process leads.
  virtual core::result<void> serve() { return {}; }
  [[nodiscard]] virtual const recovery_counts& counts() const;

  // ---- functions for diagnosis and warnings

  /// Returns, and removes, the reports of slow links that were not passed to the hook yet.
  virtual std::vector<slow_link_report> take_slow_links() { return {}; }
  /// Returns a warning that names the slow links of the whole run; empty: none.
  [[nodiscard]] virtual std::string slow_links_of_run() const { return {}; }
  /// Adds to the diagnosis of ranks between two runs which processes have not answered the leading one.
  virtual void explain_waits(std::vector<rank_diagnosis>& /*all*/) const {}

  /// close_line() and end() are called when the session ends. close_line() removes the callbacks of the link to other
  /// processes, which use the run, before the actors end; end() ends sharing with other processes after that.
  virtual void close_line() {}
  virtual void end() {}

 protected:
  training_run& run_;
};

}  // namespace troupe::actors
