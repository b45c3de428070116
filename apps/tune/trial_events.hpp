// Reads the events of a trial, lines of `troupe train --json`, and computes the measured step from them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe::apps {

/// Number of first steps that are not measured: memory is touched for the first time in them.
inline constexpr size_t warm_steps = 2;

class trial_events {
 public:
  /// Reads a line. Returns true if it says that a step was made; other lines than events are left out.
  bool take(std::string_view line);
  /// Returns the number of steps that were made, skipped and repeated ones included.
  [[nodiscard]] uint64_t steps() const { return steps_; }
  /// Returns the median seconds of the steps after the first ones, without skipped and repeated ones; 0: there is no
  /// such step.
  [[nodiscard]] double step_s() const;

 private:
  uint64_t steps_ = 0;
  std::vector<double> measured_s_;
};

}  // namespace troupe::apps
