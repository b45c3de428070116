// Detects a step whose loss has risen too far (`on_spike`). Pure functions of the losses before it; the session decides
// the reaction.
#pragma once

#include <span>
#include <vector>

#include "config/sections/run_config.hpp"

namespace troupe::job {

/// Result of a training step, as far as the detection of spikes of the loss needs it.
struct ended_step {
  double loss = 0;
  bool skipped = false;           ///< true: the step's gradient was not finite, so nothing was updated
  bool expects_overflow = false;  ///< true: gradients that are not finite are normal (job_config::expects_overflow())
};

struct judged_loss {
  bool is_spike = false;
  double usual = 0;  ///< median of the latest losses; 0: too few losses to compute it
};

/// Judges the loss of a step. A loss that is not finite is always a spike. A skipped step with a finite loss is a spike
/// only if overflows are not expected. Any other loss is a spike if it exceeds `factor` times the median of `recent`,
/// which must hold at least `min_steps` losses.
judged_loss judge_loss(const config::on_spike_section& how, std::span<const double> recent, const ended_step& step);

/// Appends the loss of `step` to `recent`, unless the step was skipped or its loss is not finite, and keeps the last
/// `how.window` losses. The caller has made sure that `step` is no spike.
void remember_loss(const config::on_spike_section& how, std::vector<double>& recent, const ended_step& step);

}  // namespace troupe::job
