// Numbers that apply to every step of a run: the factors by which gradient sums become a mean, and the settings of
// updates.
#pragma once

#include <optional>

namespace troupe::job {

/// Learning rate, momentum and weight decay of an optimizer group for one update.
struct group_setting {
  double lr = 0;
  std::optional<double>
      /// First beta that the OneCycle schedule sets; the second is then kernels::one_cycle_beta2; nullopt: both betas
      /// are the optimizer's own.
      beta1;
  std::optional<double> weight_decay;  ///< weight decay that the host program has set; nullopt: the configuration's
};

/// The rules by which gradient sums are scaled to a mean and clipped; constant over a run.
struct scaling_rules {
  double clip = 0;  ///< largest gradient norm (gradient_clipping); 0: no clipping
  /// Factor of each rank's gradient before the sum over ranks (prescale_gradients, gradient_predivide_factor).
  double input_scale = 1;
  bool skip_overflow = false;  ///< true: a step whose gradients are not finite is skipped
};

}  // namespace troupe::job
