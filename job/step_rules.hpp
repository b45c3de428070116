// Numbers of the configuration that apply to every step: how gradients become a mean, and the settings of updates.
#pragma once

#include <optional>

namespace troupe::job {

/// Learning rate and momentum of a parameter group for one update.
struct group_setting {
  double lr = 0;
  std::optional<double>
      beta1;  ///< set by OneCycle, with kernels::one_cycle_beta2 as beta2; nullopt: the optimizer's own betas
};

/// The rules by which gradient sums are scaled to a mean and clipped; constant over a run.
struct scaling_rules {
  double clip = 0;             ///< largest gradient norm (gradient_clipping); 0: no clipping
  double input_scale = 1;      ///< applied to every contribution before the sum (prescale, predivide)
  bool skip_overflow = false;  ///< true: a step whose gradients are not finite is skipped
};

}  // namespace troupe::job
