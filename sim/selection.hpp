// Chooses the spans, steps and holdings of a run that a question is about: by rank, step, lane and name.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/instruction.hpp"
#include "sim/history.hpp"

namespace troupe::sim {

class selection {
 public:
  /// Chooses one rank and one step, counted from 1; nullopt: all.
  selection(const history& h, std::optional<uint32_t> rank, std::optional<uint64_t> step)
      : h_(h), rank_(rank), step_(step) {}

  /// Throws world_error, with the nearest name, if no instruction of the plans has this name.
  void check(std::string_view name) const;
  /// Returns the spans of the instructions of a name, after check().
  [[nodiscard]] std::vector<const span*> named(std::string_view name) const;
  [[nodiscard]] std::vector<const span*> of_lane(plan::lane lane) const;
  [[nodiscard]] std::vector<const step_record*> steps() const;
  /// Returns the holdings in the chosen steps on the chosen ranks for which `wanted` returns true.
  [[nodiscard]] std::vector<const holding*> held(const std::function<bool(const holding&)>& wanted) const;
  /// Returns which of the names have not started, the failure of the run, if it failed, and its seed.
  [[nodiscard]] std::string why_not(std::initializer_list<std::string_view> names) const;

 private:
  [[nodiscard]] std::vector<bool> numbers_of(std::string_view name) const;
  [[nodiscard]] bool has(const span& s) const { return (!rank_ || s.rank == *rank_) && (!step_ || s.step == *step_); }

  const history& h_;
  std::optional<uint32_t> rank_;
  std::optional<uint64_t> step_;
};

}  // namespace troupe::sim
