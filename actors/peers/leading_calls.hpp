// Sends the calls of the process that leads a term to the processes that serve it: runs of plans, access to states of
// ranks in other processes, and operations of all processes between two steps (load a checkpoint, move states, name a
// checkpoint). Owns that either all processes perform such an operation or none; actors/processes/calls.hpp owns the
// form of calls.
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

  /// Runs a plan on all processes. Errors: the run is over.
  core::result<run_outcome> run(plan::plan_choice which, const std::shared_ptr<step_order>& order);
  /// Returns functions that read and write the states of a rank in another process.
  [[nodiscard]] states_elsewhere states_of(uint32_t rank) const;
  /// Loads a checkpoint on all processes. All check it first; states change only if no process refuses it.
  core::result<std::filesystem::path> load(const std::filesystem::path& path, const load_options& options);
  core::result<offload_report> offload(const offload_request& request);
  /// Reloads states on all processes. After a loss the states are back in memory, because the term began with them
  /// there.
  core::result<void> reload();
  core::result<void> check_tags(const std::string& mine);

  /// Forgets which links were slow; call when a term begins.
  void begin_term() { slow_ = {}; }
  std::vector<slow_link_report> take_slow_links() { return std::exchange(untold_, {}); }
  [[nodiscard]] const std::vector<std::string>& slow_link_ends() const { return slow_ends_; }

 private:
  core::result<void> add_reports(uint64_t number, run_outcome& to);
  /// Reports to the host which links between machines have become slow. Call after a training step.
  void name_slow_links(const std::vector<link_traffic>& links);
  /// Returns the other processes' results of a call, in the order of their ranks. Errors: the term has ended, and with
  /// it the run as it was.
  core::result<std::vector<deed_answer>> results_of(uint64_t number);

  training_run& run_;
  process_links& links_;
  const memory_keeper& keeper_;
  slow_links slow_;  // slow links of this term
  /// Text that names both ends of each slow link that was reported, without repeats; the warning at the end of the run
  /// lists them.
  std::vector<std::string> slow_ends_;
  std::vector<slow_link_report> untold_;  // reports of slow links whose hooks have not been called yet
};

}  // namespace troupe::actors
