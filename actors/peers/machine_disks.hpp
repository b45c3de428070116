// Handles checkpoints of a job on several machines: checks whether `output` is one folder of all, or with
// `checkpoint.use_node_local_storage` a disk of each machine. Owns where a process writes its part of a checkpoint,
// which data the other machines receive, and which machine has which file; actors/processes/node_local_files.hpp owns
// the names and the reads.
#pragma once

#include <memory>
#include <optional>

#include "actors/processes/calls.hpp"
#include "actors/processes/node_local_files.hpp"
#include "actors/processes/shared_output.hpp"
#include "actors/saving/save_job.hpp"
#include "core/error.hpp"

namespace troupe::actors {

struct process_links;
struct training_run;

class machine_disks {
 public:
  machine_disks(training_run& run, process_links& links) : run_(run), links_(links) {}
  machine_disks(const machine_disks&) = delete;
  machine_disks& operator=(const machine_disks&) = delete;

  /// Checks a folder that all machines must share: each machine must see the file that the leading process has put
  /// there, while `sign` lives, and must be able to write there. Errors: bad_input.
  core::result<void> look_at_output(std::optional<output_sign>& sign);
  /// True if this job's checkpoints are stored on its machines' own disks instead of one shared folder.
  [[nodiscard]] bool are_used() const;
  /// Returns the files of all machines. Call only if are_used().
  [[nodiscard]] std::unique_ptr<node_local_files> files() const;
  /// Returns the invitation with the folder in which this process writes and syncs its part of a save on its disk.
  core::result<save_invitation> place_of_part(const save_invitation& invitation) const;
  /// Called in the leading process after a save: sends the other machines the data with which they keep their parts of
  /// the checkpoint.
  void tell_saved(const save_job& save, const save_report& report);
  /// Stores a committed checkpoint's data here. A failure leaves the checkpoint whole, because its manifest is on the
  /// machine that leads.
  void keep(const committed_call& c);

 private:
  training_run& run_;
  process_links& links_;
  bool has_seen_output_ = false;  // true: this process has found the folder of outputs of the leading process
};

}  // namespace troupe::actors
