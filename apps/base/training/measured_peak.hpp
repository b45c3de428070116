// Owns when the peak rate for the model-FLOPs utilisation is measured: after the first step, and again if steps exceed
// the measured peak, because other programs used the machine during the measurement. Leaves the measurement to the
// caller.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "apps/base/training/progress.hpp"

namespace troupe::apps {

class measured_peak {
 public:
  /// Largest number of measurements that are repeated because steps have exceeded the measured peak.
  static constexpr int again_max = 3;

  /// Stores its arguments. `measure` measures and returns the operations per second of one rank's core, or of the
  /// device that all ranks share; `cores` is the number of ranks, or 1 for a device.
  measured_peak(std::function<double()> measure, uint32_t cores) : measure_(std::move(measure)), cores_(cores) {}

  /// Measures if a measurement is due, and passes the peak to `show`. If steps still exceed the peak after the last
  /// measurement, reports once that the model-FLOPs utilisation is unknown.
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
