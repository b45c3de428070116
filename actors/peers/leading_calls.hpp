// Sends requests (calls) from the process that leads a term to the processes that serve it: runs of plans, access to
// states of ranks in other processes, and operations of all processes between two steps (loading a checkpoint, moving
// states, naming a checkpoint). Owns that either all processes perform such an operation or none does;
// actors/processes/calls.hpp owns the encoding of calls. A term is a time in which the processes and ranks of a job
// stay the same.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/loading/load_options.hpp"
#include "actors/memory/offload_request.hpp"
#include "actors/memory/rank_memory.hpp"
#include "actors/messages.hpp"
#include "actors/processes/calls.hpp"
#include "actors/processes/slow_links.hpp"

namespace troupe::actors {

class memory_keeper;
struct process_links;
struct training_run;

class leading_calls {
 public:
  leading_calls(training_run& run, process_links& links, const memory_keeper& keeper)
      : run_(run), links_(links), keeper_(keeper) {}
  leading_calls(const leading_calls&) = delete;
  leading_calls& operator=(const leading_calls&) = delete;

  /// Runs a plan on the ranks of all processes. Errors: the run has ended.
  core::result<run_outcome> run(plan::plan_choice which, const std::shared_ptr<step_order>& order);
  /// Returns functions that read and write the states of a rank in another process.
  [[nodiscard]] states_elsewhere states_of(uint32_t rank) const;
  /// Loads a checkpoint on all processes, and returns its folder. Each process checks it before its states change; no
  /// states change if any process refuses the checkpoint.
  core::result<std::filesystem::path> load(const std::filesystem::path& path, const load_options& options);
  core::result<offload_report> offload(const offload_request& request);
  /// Moves offloaded states back into memory on all processes. If processes were lost meanwhile, there is nothing to
  /// move: the new term (time with the same processes) has begun with its states in memory.
  core::result<void> reload();
  core::result<void> check_tags(const std::string& mine);

  /// Forgets which links between machines were slow; call when a term (time with the same processes) begins.
  void begin_term() { slow_ = {}; }
  std::vector<slow_link_report> take_slow_links() { return std::exchange(untold_, {}); }
  [[nodiscard]] const std::vector<std::string>& slow_link_ends() const { return slow_ends_; }

 private:
  core::result<void> add_reports(uint64_t number, run_outcome& to);
  /// Reports to the host program which links between machines have become slow. Call after a training step.
  void name_slow_links(const std::vector<link_traffic>& links);
  /// Returns the results of call number `number` from the other processes, in the order of their ranks. Errors: the
  /// term (time with the same processes) has ended.
  core::result<std::vector<call_answer>> results_of(uint64_t number);

  training_run& run_;
  process_links& links_;
  const memory_keeper& keeper_;
  slow_links slow_;  // finds slow links in this term
  /// Text that names both ends of each slow link that was reported, without repeats; the warning at the end of the run
  /// lists them.
  std::vector<std::string> slow_ends_;
  std::vector<slow_link_report> untold_;  // reports of slow links whose hooks have not been called yet
};

}  // namespace troupe::actors
