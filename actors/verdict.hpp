// Decides what a step does with its gradients: computes the gradient norm from the numbers that all ranks exchange in
// the vote, and from it whether the step is skipped or clipped. Pure functions; step_context.hpp calls them once a run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/compress/value_range.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::job {
struct scaling_rules;
}

namespace troupe::actors {

/// The result of the vote, equal on every rank: gradient norm, losses, and whether the step is skipped or clipped.
struct verdict {
  double loss = 0;        ///< mean loss over the global batch
  double square_sum = 0;  ///< sum of the squares of all gradient sums, before the factor that makes them means
  double grad_norm = 0;   ///< norm of the mean gradient; not finite on overflow
  bool overflow = false;  ///< the gradient has a NaN or an infinity
  bool skipped = false;   ///< true: the gradient overflowed, and the job skips such steps
  /// True: the norm exceeds its limit by so much that gradient_scale differs from its value without clipping.
  bool clipped = false;
  double gradient_scale = 1;  ///< factor that `update` multiplies gradients by; rounded to fp32 unless masters are fp64
  /// [calibrated layer]: range of the layer's inputs in this step, over all ranks and micro-batches
  std::vector<kernels::value_range<double>> input_ranges{};
  [[nodiscard]] plan::branch taken() const {
    return skipped ? plan::branch::skipped : clipped ? plan::branch::clipped : plan::branch::not_skipped;
  }
};

/// Returns the factor that turns the sum of the gradients of all micro-batches and data ranks, scaled by the loss
/// scale, into their mean.
double factor_of_mean(const plan::rank_plan& p, double loss_scale, const job::scaling_rules& rules);

/// Returns verdict::gradient_scale of a step that does not clip; known before the vote.
double unclipped_scale(const plan::rank_plan& p, double loss_scale, const job::scaling_rules& rules);

/// Computes the verdict from `votes`, with the losses of the first `micros` micro-batches; 0: of all. Clips by the
/// global norm, and combines mean, loss scale and clipping into one factor, which the update applies once.
verdict judge(const plan::rank_plan& p, std::span<const double> votes, double loss_scale,
              const job::scaling_rules& rules, uint32_t micros = 0);

}  // namespace troupe::actors
