// Makes saves in memory (`checkpoint.memory`): copies of the states from which a run continues after the loss of a
// process, at the cost of one step at most. Owns when a save is made, and the messages about its name;
// actors/processes/memory_saves.hpp owns the files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "actors/saving/save_job.hpp"
#include "core/error.hpp"

namespace troupe::actors {

struct process_links;
struct training_run;

class memory_keeper {
 public:
  memory_keeper(training_run& run, process_links& links) : run_(run), links_(links) {}
  memory_keeper(const memory_keeper&) = delete;
  memory_keeper& operator=(const memory_keeper&) = delete;

  /// begin_if_due(), end() and save_now() implement begin_save_in_memory(), end_save_in_memory() and
  /// save_in_memory_now() of class `peers`.
  core::result<void> begin_if_due();
  core::result<void> end();
  core::result<void> save_now();
  /// Returns the save in memory that is being made; null: none.
  [[nodiscard]] const std::shared_ptr<save_job>& under_way() const { return kept_; }
  /// Returns the number of steps done at the newest save in memory; none: there is no such save.
  [[nodiscard]] std::optional<uint64_t> newest() const { return newest_; }

  /// Call when a term (time with the same processes) begins. `newest`: number of steps done at the save in memory from
  /// which the term begins; none: it begins without one.
  void begin_term(std::optional<uint64_t> newest) { newest_ = newest; }
  /// If a save in memory is being made, ends it as failed, because processes were lost or change, with the error `why`.
  void abandon(const core::error& why);

 private:
  core::result<void> begin();

  training_run& run_;
  process_links& links_;
  std::shared_ptr<save_job> kept_;      // the save in memory that is being written; null: none
  std::filesystem::path working_;       // folder that `kept_` is written to until it is committed
  std::weak_ptr<const void> recorded_;  // record of the step before the save `kept_`; expires when it is written
  std::optional<uint64_t> newest_;
  bool fails_ = false;  // true: the last save in memory has failed
};

}  // namespace troupe::actors
