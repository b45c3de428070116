// Derives the number of updates from an optimizer's own counters. Owns the range of valid numbers and which of several
// counters is used; readers find the counters in the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {

/// Largest number of steps that a double represents exactly (2^53); torch stores steps as floating-point numbers.
inline constexpr uint64_t max_exact_steps = 9'007'199'254'740'992;

/// Return `number` as a count of steps. Refused (bad_input), with the number: a value that is not a whole number from 0
/// to max_exact_steps.
core::result<uint64_t> steps_from(double number);
core::result<uint64_t> steps_from(int64_t number);

/// Returns the count of steps in a file of torch.save: an integer, a real, or a tensor of one number in fp32, fp64,
/// int64 or int32. Refused (bad_input): any other value.
core::result<uint64_t> steps_at(const torch_archive& file, pickle_ref value);

/// The update counters of one optimizer: one for each parameter, or one for each group, depending on the optimizer.
class update_counts {
 public:
  /// Adds the counter of one parameter; `name` is for messages.
  void add_parameter(std::string_view name, uint64_t updates);
  void add_group(uint64_t updates);

  /// Returns the largest counter of a parameter, else the largest counter of a group, else nothing.
  [[nodiscard]] std::optional<uint64_t> updates() const;
  /// Returns a sentence if parameters have different counters, of which one is used for all; nothing if they are equal.
  [[nodiscard]] std::optional<std::string> difference() const;

 private:
  std::optional<uint64_t> least_, most_, of_groups_;
  std::string of_least_;
};

}  // namespace troupe::formats
