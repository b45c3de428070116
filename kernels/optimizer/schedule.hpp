// Learning rates, and the momentum that OneCycle changes with them, as functions of the options and the number of
// steps. Owns the formulas; keeps no state, so the caller stores the number of steps.
#pragma once

#include <cstdint>
#include <optional>

#include "core/error.hpp"
#include "core/training_types.hpp"

namespace troupe::kernels {

using core::schedule_options;

/// Checks a schedule's options. Errors (bad_input), by key: a number that is not finite, a length of 0 if at least 1 is
/// required, stages of warmup_stable_decay that are longer than the whole, an unknown schedule.
core::result<void> check(const schedule_options& options);

/// Returns the rate after `it` + 1 schedule steps; before the first one if `it` is -1 or any other negative number.
/// Returns NaN for options that check() refuses. Rates that the schedule names itself (warmup_min_lr, warmup_max_lr,
/// lr_range_test_min_lr, cycle_min_lr, cycle_max_lr) are those of the optimizer's group: another group gets them times
/// `rate_ratio`. During DeepSpeed's warm-up (it < N): g = ln(it + 1) / ln N ("log") or it / N ("linear"). With b =
/// it + 1 and p = min(1, (b - N) / max(1, T - N)):
///   WarmupLR           min + (max - min) * g, then max
///   WarmupDecayLR      as WarmupLR, then g = max(0, (T - it) / max(1, T - N))
///   WarmupCosineLR     base * (m + (1 - m) * g), then base * max(0, c + (1 - c) * (1 + cos(pi * p)) / 2)
///   LRRangeTest        min * (1 + rate * b / size), the quotient floored with a staircase
///   OneCycle           min + (max - min) * scale(b) while it < F + S, then min / (1 + decay_rate * k / decay_steps)
///                      with k = b - F - S; scale rises to 1 in F steps and falls to 0 in S, in stairs if they are set
///   CosineAnnealingLR  eta_min + (base - eta_min) * (1 + cos(pi * b / t_max)) / 2
///   LinearLR           base * (start + (end - start) * min(1, b / total_iters))
///   PolynomialLR       base * (1 - min(1, b / total_iters))^power
///   CosineAnnealingWarmRestarts
///                      eta_min + (base - eta_min) * (1 + cos(pi * k / P)) / 2, k steps after the last restart; the
///                      periods P between restarts are t_0, t_0 * t_mult, t_0 * t_mult^2, ...
///   cosine_with_restarts
///                      base * b / W while b < W, then base * (1 + cos(pi * ((C * q) mod 1))) / 2 with q = (b - W) /
///                      max(1, A - W), and 0 from q = 1 on
///   warmup_stable_decay
///                      base * (h * (1 - r) + r); h is b / W while b < W, then 1; in the last D of A steps it is
///                      (1 + cos(pi * p)) / 2, 1 - p or 1 - sqrt(p) with p = (b - A + D) / D, and 0 from b = A on
/// The four classes of torch begin after W steps, in which the rate is their first value * b / W.
/// Letters: base is base_lr; N warmup_num_steps; T total_num_steps; m warmup_min_ratio; c cos_min_ratio; F and S the
/// steps of OneCycle's first and second half; min and max the rates that the schedule names itself; W num_warmup_steps;
/// A num_training_steps; C num_cycles; D num_decay_steps; r min_lr_ratio. The rate before the first step of a DeepSpeed
/// warm-up is warmup_min_lr, for WarmupCosineLR 0. Sources: DeepSpeed's runtime/lr_schedules.py; the closed forms of
/// torch.optim.lr_scheduler; get_cosine_with_hard_restarts_schedule_with_warmup and get_wsd_schedule of transformers.
double learning_rate(const schedule_options& options, int64_t it);

/// The value that beta2 has while OneCycle changes beta1, instead of the optimizer's own.
inline constexpr double one_cycle_beta2 = 0.99;

/// Returns beta1 after `it` + 1 schedule steps if OneCycle changes it, otherwise nullopt: max - (max - min) * scale(b)
/// while it < F + S, then max * (1 + decay_mom_rate * k / decay_steps), which may exceed 1; min before the first step.
/// Here b = it + 1, F and S are the steps of the cycle's first and second half, k = b - F - S, and scale(b) rises from
/// 0 to 1 in F steps and falls to 0 in S; min and max are cycle_min_mom and cycle_max_mom. Returns NaN for options that
/// check() refuses.
std::optional<double> momentum(const schedule_options& options, int64_t it);

}  // namespace troupe::kernels
