// Learning rates, and the momentum that OneCycle moves with them, as pure functions of the step. Owns the formulas; the
// position is one integer that others keep.
#pragma once

#include <cstdint>
#include <optional>

#include "core/error.hpp"
#include "core/training_types.hpp"

namespace troupe::kernels {

/// The keys of DeepSpeed's scheduler section and of torch.optim.lr_scheduler's classes.
struct schedule_options {
  core::schedule_type type = core::schedule_type::constant;  ///< constant: always `base_lr`
  double warmup_min_lr = 0;
  std::optional<double> warmup_max_lr = std::nullopt;  ///< none: `base_lr` for WarmupLR, 0.001 for WarmupDecayLR
  uint64_t warmup_num_steps = 1000;                    ///< N = max(2, this)
  uint64_t total_num_steps = 0;                        ///< T, of WarmupDecayLR and WarmupCosineLR
  core::warmup_shape warmup_type = core::warmup_shape::log;
  double warmup_min_ratio = 0;  ///< of WarmupCosineLR, as cos_min_ratio
  double cos_min_ratio = 1e-4;
  double base_lr = 1e-3;  ///< the group's own
  double rate_ratio = 1;  ///< of the group's rate to the optimizer's; scales the rates that the schedule names itself

  double lr_range_test_min_lr = 1e-3;
  uint64_t lr_range_test_step_size = 2000;  ///< at least 1
  double lr_range_test_step_rate = 1;
  bool lr_range_test_staircase = false;

  double cycle_min_lr = 0, cycle_max_lr = 0;  ///< of OneCycle, as all that follow
  double decay_lr_rate = 0;
  uint64_t cycle_first_step_size = 2000;                            ///< at least 1
  std::optional<uint64_t> cycle_second_step_size = std::nullopt;    ///< none: as the first
  uint64_t cycle_first_stair_count = 0;                             ///< 0: no stairs
  std::optional<uint64_t> cycle_second_stair_count = std::nullopt;  ///< none: as the first
  uint64_t decay_step_size = 0;                                     ///< 0: no decay
  bool cycle_momentum = true;
  double cycle_min_mom = 0.8, cycle_max_mom = 0.9;
  double decay_mom_rate = 0;

  uint64_t t_max = 0;  ///< of CosineAnnealingLR, at least 1
  double eta_min = 0;
  double start_factor = 1.0 / 3, end_factor = 1;  ///< of LinearLR
  uint64_t total_iters = 5;                       ///< of LinearLR and PolynomialLR, at least 1
  double power = 1;                               ///< of PolynomialLR
};

/// Refused (bad_input), by key: a number that is not finite, a length of 0 where at least 1 is wanted, a schedule that
/// there is not.
core::result<void> check(const schedule_options& options);

/// The rate after `it` + 1 schedule steps; -1, and any other negative number: before the first one. Not a number for
/// options that check() refuses. Rates that the schedule names itself
/// (warmup_min_lr, warmup_max_lr, lr_range_test_min_lr, cycle_min_lr, cycle_max_lr) are those of the optimizer's group:
/// another group gets them times `rate_ratio`. During warm-up (it < N): g = ln(it + 1) / ln N ("log") or it / N
/// ("linear"). With b = it + 1 and p = min(1, (b - N) / max(1, T - N)):
///   WarmupLR           min + (max - min) * g, then max
///   WarmupDecayLR      the same, then g = max(0, (T - it) / max(1, T - N))
///   WarmupCosineLR     base * (m + (1 - m) * g), then base * max(0, c + (1 - c) * (1 + cos(pi * p)) / 2)
///   LRRangeTest        min * (1 + rate * b / size), the quotient floored with a staircase
///   OneCycle           min + (max - min) * scale(b) while it < F + S, then min / (1 + decay_rate * k / decay_steps)
///   with
///                      k = b - F - S; scale rises to 1 in F steps and falls to 0 in S, in stairs where counted
///   CosineAnnealingLR  eta_min + (base - eta_min) * (1 + cos(pi * b / t_max)) / 2
///   LinearLR           base * (start + (end - start) * min(1, b / total_iters))
///   PolynomialLR       base * (1 - min(1, b / total_iters))^power
/// Before the first step of a warm-up: warmup_min_lr, for WarmupCosineLR 0. Sources: DeepSpeed's
/// runtime/lr_schedules.py; the closed forms of torch.optim.lr_scheduler.
double learning_rate(const schedule_options& options, int64_t it);

/// beta2 of an optimizer whose beta1 OneCycle moves.
inline constexpr double one_cycle_beta2 = 0.99;

/// beta1 at the same position where OneCycle moves it, otherwise nothing: max - (max - min) * scale(b) while it < F +
/// S, then max * (1 + decay_mom_rate * k / decay_steps), which may pass 1; min before the first step. Not a number for
/// options that check() refuses.
std::optional<double> momentum(const schedule_options& options, int64_t it);

}  // namespace troupe::kernels
