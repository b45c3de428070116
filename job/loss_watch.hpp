// When a step's loss has risen too far (`on_spike`). Pure functions of the losses before it; what a run then does is
// the session's business.
#pragma once

#include <span>
#include <vector>

#include "config/sections/run_config.hpp"

namespace troupe::job {

/// How a step ended.
struct ended_step {
  double loss = 0;
  bool skipped = false;           ///< its gradient was not finite, so nothing was updated
  bool expects_overflow = false;  ///< job_config::expects_overflow
};

struct judged_loss {
  bool is_spike = false;
  double usual = 0;  ///< the median of the last losses; 0: too few to compare with
};

/// A loss that is not finite is a spike at any step. A skipped step with a finite loss is one only where overflows are
/// not expected. Any other loss is one where it is above `factor` times the median of `recent`, which has at least
/// `min_steps`.
judged_loss judge_loss(const config::on_spike_section& how, std::span<const double> recent, const ended_step& step);

/// Adds the loss of a step that is no spike, unless it was skipped, and keeps the last `window`.
void remember_loss(const config::on_spike_section& how, std::vector<double>& recent, const ended_step& step);

}  // namespace troupe::job
