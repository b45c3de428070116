// Handles the checkpoints of a job on several machines: checks that all machines see the same folder `output`, or, with
// `checkpoint.use_node_local_storage`, uses a disk of each machine. Owns where a process writes its part of a
// checkpoint, which data the other machines receive, and which machine has which file;
// actors/processes/node_local_files.hpp owns file names and reads.
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

  /// Checks that all machines share the folder of outputs: the leading process writes a small file into it, which
  /// exists as long as `sign`; each other machine must see that file, and must be able to write there. Errors:
  /// bad_input.
  core::result<void> look_at_output(std::optional<output_sign>& sign);
  /// True if this job's checkpoints are stored on its machines' own disks instead of one shared folder.
  [[nodiscard]] bool are_used() const;
  /// Returns a file system that reads checkpoint files of all machines. Call only if are_used().
  [[nodiscard]] std::unique_ptr<node_local_files> files() const;
  /// Returns `invitation` with the folder in which this process writes its part of a save: on its own machine's disk if
  /// are_used(), else unchanged.
  core::result<save_invitation> place_of_part(const save_invitation& invitation) const;
  /// At the job's begin, in the leading process: checks that no other machine has a newer checkpoint of `output` that
  /// the next save would remove. Errors: bad_input.
  core::result<void> check_others() const;
  /// After a save, in the leading process: sends the other machines the data (manifest, list of files) with which they
  /// keep their files of the checkpoint. Does nothing unless are_used().
  void tell_saved(const save_job& save, const save_report& report);
  /// Stores on this machine the data `c` about a committed checkpoint. A failure only causes a warning: the checkpoint
  /// is complete without it, because its manifest is on the leading process's machine.
  void keep(const committed_call& c);

 private:
  training_run& run_;
  process_links& links_;
  bool has_seen_output_ = false;  // true: this process has found the leading process's file in the output folder
};

}  // namespace troupe::actors
