// The rate that model-FLOPs use is compared with: measured after the first step, and again where steps surpass it,
// since others used the machine meanwhile. Owns when it is measured; the measurement is the caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "apps/base/progress.hpp"

namespace troupe::apps {

class measured_peak {
 public:
  /// How often a peak that steps surpass is measured again.
  static constexpr int again_max = 3;

  /// `measure`: operations a second of one rank's core, measured now, or of the device that all ranks share; `cores`:
  /// one for each rank, or 1.
  measured_peak(std::function<double()> measure, uint32_t cores) : measure_(std::move(measure)), cores_(cores) {}

  /// Measures where it is time to, and tells `show`. Says once, in the end, that the use is not known.
  void after_step(progress& show, const std::function<void(const std::string&)>& say);
  /// The largest that was measured; 0: none yet.
  [[nodiscard]] double flops() const { return flops_; }

 private:
  void measure(progress& show);

  std::function<double()> measure_;
  uint32_t cores_;
  double flops_ = 0;
  int times_ = 0;  ///< that it was measured
};

}  // namespace troupe::apps
