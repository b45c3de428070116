#include "apps/base/training/measured_peak.hpp"

#include <algorithm>

namespace troupe::apps {

void measured_peak::measure(progress& show) {
  ++times_;
  flops_ = std::max(flops_, measure_());
  show.use_peak(flops_ * cores_);
}

void measured_peak::after_step(progress& show, const std::function<void(const std::string&)>& say) {
  if (times_ == 0) measure(show);  // after the first step, so that the user does not wait for it
  if (!show.beyond_peak() || times_ > again_max) return;
  measure(show);
  if (times_ > again_max && show.beyond_peak())
    say("MFU is unknown: steps do more than the measured peak of this machine, which others use at the same time");
}

}  // namespace troupe::apps
