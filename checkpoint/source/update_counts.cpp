#include "checkpoint/source/update_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"

namespace troupe::checkpoint {

core::result<uint64_t> steps_from(double number) {
  if (number >= 0 && number <= static_cast<double>(max_exact_steps) && number == std::floor(number))
    return static_cast<uint64_t>(number);
  return core::fail(core::error_kind::bad_input, fmt::format("a number of steps was wanted, got {}", number));
}

void update_counts::add_parameter(std::string_view name, uint64_t updates) {
  if (!least_ || updates < *least_) {
    least_ = updates;
    of_least_ = name;
  }
  most_ = std::max(most_.value_or(0), updates);
}

void update_counts::add_group(uint64_t updates) { of_groups_ = std::max(of_groups_.value_or(0), updates); }

std::optional<uint64_t> update_counts::updates() const { return most_ ? most_ : of_groups_; }

std::optional<std::string> update_counts::difference() const {
  if (least_ == most_) return std::nullopt;
  return fmt::format("the optimizer counts {} updates of one parameter and {} of {}: every parameter continues with {}",
                     *most_, *least_, core::shown(of_least_), *most_);
}

}  // namespace troupe::checkpoint
