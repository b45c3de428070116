// Owns the questions that a test asks about a simulated job of several processes: its terms, the step at which each
// goes on, what was lost, and who was named. processes_world.hpp and machines_world.hpp run such jobs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/answer.hpp"
#include "sim/history.hpp"
#include "sim/terms/term_record.hpp"

namespace troupe::sim {

/// Everything that is known about a simulated job of several processes.
struct job_record {
  uint64_t seed = 0;
  std::string replay;           ///< command that replays the run; empty: the program does not draw its seeds
  std::optional<int32_t> code;  ///< exit code of the job, or nothing if it did not end in time
  std::string wrong;            ///< first violation of an invariant, or empty if there was none
  std::string said;             ///< log lines of the supervisor
  std::string cause;            ///< error with which the leading process ended, or empty if it ended without one
  std::vector<term_record> terms;
  std::vector<strike> faults;  ///< faults of the world, and when they happened
  std::vector<bool> struck;    ///< [drawn fault]: true if it took effect
  uint64_t steps = 0;          ///< number of steps that the job was to do
  uint64_t steps_done = 0;     ///< number of steps that it did, each counted once
  uint64_t steps_again = 0;    ///< number of steps that were lost with a term and done again
  uint64_t messages = 0;       ///< number of messages that links have delivered
  double seconds = 0;          ///< duration of the job in virtual seconds
};

/// A simulated job of several processes. Every question throws world_error if ranks of two terms have worked at the
/// same time, if a collective had members of two terms, or if the job did not end. Cheap to copy.
class job_run {
 public:
  explicit job_run(std::shared_ptr<const job_record> all) : all_(std::move(all)) {}

  /// Returns the terms of the job in their order: degree, processes, and where each goes on.
  [[nodiscard]] const std::vector<term_record>& terms() const;
  /// Returns the number of the first step, from 1, that the last term does. Throws world_error if the job had one term.
  [[nodiscard]] quantity resumed_at() const;
  /// Returns this number for one of terms(), counted from 1; the first one begins at step 1. Throws world_error for a
  /// term that the job did not have.
  [[nodiscard]] quantity resumed_at(size_t term) const;
  /// Returns how many steps were lost with their terms and done again.
  [[nodiscard]] quantity lost_steps() const;
  /// Returns the data degree of the last term.
  [[nodiscard]] quantity degree() const;
  /// True if the supervisor declared this rank, process or host lost, or named it as the cause of a new term or of the
  /// end: `named("rank 1")`. Whole words are compared, so that "rank 1" is not named by "rank 12".
  [[nodiscard]] verdict named(std::string_view who) const;

  /// True if all steps were done and the job ended without an error.
  [[nodiscard]] verdict ended_well() const;
  /// True if the job ended with an error whose text contains `words`.
  [[nodiscard]] verdict failed_with(std::string_view words) const;
  /// True if all faults of the world have happened. A fault that never happens proves nothing.
  [[nodiscard]] verdict faults_happened() const;

  /// Returns the record of the whole run, which has no invariants to hold.
  [[nodiscard]] const job_record& log() const { return *all_; }

 private:
  [[nodiscard]] const job_record& sound() const;

  std::shared_ptr<const job_record> all_;
};

}  // namespace troupe::sim
