// Executes, in a process that serves a term, the calls (requests) of the process that leads the term. Owns which answer
// each call has.
#pragma once

#include <memory>

#include "actors/processes/calls.hpp"
#include "actors/saving/save_job.hpp"
#include "cluster/process.hpp"

namespace troupe::actors {

class machine_disks;
struct process_links;
struct training_run;

class served_calls {
 public:
  served_calls(training_run& run, process_links& links, machine_disks& disks)
      : run_(run), links_(links), disks_(disks) {}
  served_calls(const served_calls&) = delete;
  served_calls& operator=(const served_calls&) = delete;

  /// Executes a call of the leading process, and sends the answer if the call has one. Errors: the term (time with the
  /// same processes) must end.
  core::result<void> obey(const cluster::call& c);
  /// Executes calls until the pruning masks have arrived. The leading process computes the masks from weights of all
  /// processes, which it reads by calls meanwhile.
  core::result<void> obey_until_masks();

 private:
  core::result<void> obey(uint64_t number, const run_call& c);
  core::result<void> obey(uint64_t number, const read_call& c);
  core::result<void> obey(uint64_t number, const write_call& c);
  core::result<void> obey(uint64_t number, const load_call& c);
  core::result<void> obey(uint64_t number, const offload_call& c);
  core::result<std::shared_ptr<save_job>> join_save(storage::file_system& files, uint64_t run,
                                                    const save_invitation& invitation, const save_request& request);

  training_run& run_;
  process_links& links_;
  machine_disks& disks_;
};

}  // namespace troupe::actors
