// Makes saves in memory (`checkpoint.memory`): after a loss a run continues from the newest, which costs one step at
// most. Owns when a save is made, and the messages on its name; actors/processes/memory_saves.hpp owns the files.
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

  /// begin_if_due, end and save_now execute the functions of peers with begin_save_in_memory and so on.
  core::result<void> begin_if_due();
  core::result<void> end();
  core::result<void> save_now();
  /// Returns the save that is being made; null: none.
  [[nodiscard]] const std::shared_ptr<save_job>& under_way() const { return kept_; }
  /// Returns the number of steps done at the newest save in memory; none: there is no such save.
  [[nodiscard]] std::optional<uint64_t> newest() const { return newest_; }

  /// Called when a term has begun with the save of step `newest`; none: it has not begun with one.
  void begin_term(std::optional<uint64_t> newest) { newest_ = newest; }
  /// Ends an unfinished save in memory, because the term has ended with `why`.
  void abandon(const core::error& why);

 private:
  core::result<void> begin();

  training_run& run_;
  process_links& links_;
  std::shared_ptr<save_job> kept_;      // the save in memory that is being written; null: none
  std::filesystem::path working_;       // working folder of `kept_` until the save is committed
  std::weak_ptr<const void> recorded_;  // handle of the newest record when the save `kept_` began
  std::optional<uint64_t> newest_;
  bool fails_ = false;  // true: the last save in memory has failed
};

}  // namespace troupe::actors
