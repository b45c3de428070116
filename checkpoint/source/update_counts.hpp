// How many updates an optimizer's own counters say that it did. Owns what a number of steps may be and which of several
// counts; where counters stand in a file is the readers' to know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Numbers beyond are not exact as floating point, in which torch counts steps.
inline constexpr uint64_t max_exact_steps = 9'007'199'254'740'992;

/// Refused (bad_input), with the number: what is no whole number from 0 to max_exact_steps.
core::result<uint64_t> steps_from(double number);

/// The counters of one optimizer: one for each parameter, or for each group, as its kind has it.
class update_counts {
 public:
  /// `name` is for people.
  void add_parameter(std::string_view name, uint64_t updates);
  void add_group(uint64_t updates);

  /// The most of a parameter's; where no parameter counts, the most of a group's; nothing where neither does.
  [[nodiscard]] std::optional<uint64_t> updates() const;
  /// Says that parameters have different counts, of which one is taken for all; nothing where they have one.
  [[nodiscard]] std::optional<std::string> difference() const;

 private:
  std::optional<uint64_t> least_, most_, of_groups_;
  std::string of_least_;
};

}  // namespace troupe::checkpoint
