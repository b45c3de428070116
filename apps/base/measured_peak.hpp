// Owns when the peak rate for model-FLOPs use is measured: after the first step, and again if steps exceed the measured
// peak, because other programs used the machine during the measurement. Leaves the measurement to the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "apps/base/progress.hpp"

namespace troupe::apps {

class measured_peak {
 public:
  /// Limit of the repeated measurements of a peak that steps exceed.
  static constexpr int again_max = 3;

  /// Stores its arguments. `measure` returns operations per second, measured now, of one rank's core or of the device
  /// that all ranks share; `cores` is one per rank, or 1 for a device.
  measured_peak(std::function<double()> measure, uint32_t cores) : measure_(std::move(measure)), cores_(cores) {}

  /// Measures if a measurement is due, and passes the peak to `show`. Reports once, after the last measurement, that
  /// the use is unknown.
  void after_step(progress& show, const std::function<void(const std::string&)>& say);
  /// Returns the largest measured rate in operations per second; 0: not measured yet.
  [[nodiscard]] double flops() const { return flops_; }

 private:
  void measure(progress& show);

  std::function<double()> measure_;
  uint32_t cores_;
  double flops_ = 0;
  int times_ = 0;  ///< number of measurements of the peak so far
};

}  // namespace troupe::apps
