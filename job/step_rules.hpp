// Numbers of the configuration that apply to every step: how gradients become a mean, and the settings of updates.
#pragma once

#include <optional>

namespace troupe::job {

/// A group's settings for an update at one position of the schedules.
struct group_setting {
  double lr = 0;
  std::optional<double>
      beta1;  ///< replaces the optimizer's if OneCycle changes it; beta2 then is kernels::one_cycle_beta2
};

/// How gradients become a mean and are clipped; constant over a run.
struct scaling_rules {
  double clip = 0;             ///< gradient_clipping; 0: off
  double input_scale = 1;      ///< applied to every contribution before the sum (prescale, predivide)
  bool skip_overflow = false;  ///< true for fp16, and for bf16 with check_grad_overflow
};

}  // namespace troupe::job
