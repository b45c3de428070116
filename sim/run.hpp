// Owns the questions that a test asks about a simulated run: orders, overlaps, idle time, memory, failures. The record
// that answers them is in history.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/instruction.hpp"
#include "sim/answer.hpp"
#include "sim/history.hpp"
#include "sim/places.hpp"

namespace troupe::sim {

class moments;

/// A simulated run, or the part of it that on() and in_step() choose. Instructions are named as `troupe plan` prints
/// them, or by the beginnings of their names (names.hpp); a name means all instructions that it names. Every question
/// throws world_error for a name that no instruction of the plans has, with the nearest one. Cheap to copy.
class simulated_run {
 public:
  explicit simulated_run(std::shared_ptr<const history> all) : all_(std::move(all)) {}

  /// Returns the part of the run on one rank, or in one step, counted from 1. Throws world_error for one that the run
  /// does not have; a step behind a failed one is such a step. In a folded world (world_options::fold), the part on the
  /// rank that acts for `r`, by whose number texts then name it.
  [[nodiscard]] simulated_run on(rank r) const;
  [[nodiscard]] simulated_run in_step(uint64_t number) const;

  /// Returns the moments at which the instructions of a name start or end, to be compared:
  /// `run.starts("update 0").after("reduce bucket 3")`.
  [[nodiscard]] moments starts(std::string_view name) const;
  [[nodiscard]] moments ends(std::string_view name) const;
  /// True if, on each rank and in each step, all instructions of each name start after all of the name before it in
  /// the list have started. Wants at least two names. Ranks that do not run all of the names are left out; no if that
  /// leaves none.
  [[nodiscard]] verdict order(std::initializer_list<std::string_view> names) const;

  /// Returns the fraction of the time in which the instructions of a name work during which the compute lane of their
  /// rank works, too: from 0 to 1; 1 if they take no time. A collective works from the moment when all members have
  /// posted it, and the one before it in its communicator has ended.
  [[nodiscard]] quantity hidden(std::string_view name) const;
  /// Returns the fraction of the time in which the instructions `name` work during which some of `other` work on the
  /// same rank; 0 if `name` takes no time.
  [[nodiscard]] quantity overlap(std::string_view name, std::string_view other) const;
  /// Returns the fraction of the steps, from order to result and over all chosen ranks, in which the lane does not
  /// work.
  [[nodiscard]] quantity idle(plan::lane lane) const;
  /// Returns the most bytes that a chosen rank holds at a time for an owner, by the names of `troupe plan`'s memory
  /// table: slots while they are in use, "activations" as the compute lane keeps them. Throws world_error for an
  /// unknown owner. Without a name: of all owners together.
  [[nodiscard]] quantity peak(std::string_view owner) const;
  [[nodiscard]] quantity peak() const;
  /// Returns the virtual seconds of a step, from its order to its result: the mean of the chosen steps that ended well.
  /// Throws world_error if there is none.
  [[nodiscard]] quantity step_s() const;

  /// True if all steps ended well.
  [[nodiscard]] verdict ended_well() const;
  /// True if a step failed with an error whose text contains `words`, such as "rank 1".
  [[nodiscard]] verdict failed_with(std::string_view words) const;
  /// True if all faults of the world have happened. A fault that never happens proves nothing.
  [[nodiscard]] verdict faults_happened() const;

  /// Returns the chosen part as text: one line for each instruction with step, rank, lane and name. Each rank's lines
  /// are in the order of their starts; times are left out.
  [[nodiscard]] std::string schedule() const;
  /// True if the file contains the text of schedule(). With the variable TROUPE_WRITE_SCHEDULES=1, writes the file
  /// instead. Throws world_error (io) if the file can be neither read nor written.
  [[nodiscard]] verdict matches_file(const std::filesystem::path& file) const;

  /// Returns the record of the whole run.
  [[nodiscard]] const history& log() const { return *all_; }

 private:
  friend class moments;
  std::shared_ptr<const history> all_;
  std::optional<uint32_t> rank_;
  std::optional<uint64_t> step_;
};

/// Moments at which the instructions of a name start, or at which they end.
class moments {
 public:
  /// True if all of the moments are after all instructions `name` have ended (before all of them start): on each rank
  /// that runs both, or over all ranks if no rank does, in each step that has both. No if no step has both.
  [[nodiscard]] verdict after(std::string_view name) const;
  [[nodiscard]] verdict before(std::string_view name) const;

 private:
  friend class simulated_run;
  moments(simulated_run of, std::string name, bool are_ends)
      : run_(std::move(of)), name_(std::move(name)), are_ends_(are_ends) {}
  [[nodiscard]] verdict compare(std::string_view name, bool is_after) const;

  simulated_run run_;
  std::string name_;
  bool are_ends_;
};

}  // namespace troupe::sim
