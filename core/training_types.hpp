// The optimizers and learning rate curves that a configuration can name, the options of these curves and of
// the loss scale. Owns the names; leaves the formulas to kernels/.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::core {

/// Update rule that computes new parameters from gradients; `host`: the rule of a program that embeds Troupe.
enum class optimizer_type : uint8_t { adam, adamw, adagrad, lion, sgd, lamb, muon, host };
/// Names of the optimizers in a configuration, in the order of the enumerators.
inline constexpr std::array<std::string_view, 8> optimizer_names{"adam", "adamw", "adagrad", "lion",
                                                                 "sgd",  "lamb",  "muon",    "host"};

/// How the learning rate rises during warm-up: with the logarithm of the step, or linearly with the step.
enum class warmup_shape : uint8_t { log, linear };
/// Names of the warm-up shapes in a configuration, in the order of the enumerators.
inline constexpr std::array<std::string_view, 2> warmup_shape_names{"log", "linear"};

/// Shape in which the learning rate falls in the last stage of warmup_stable_decay, over the part p of that stage, from
/// 0 to 1: as (1 + cos(pi p)) / 2, as 1 - p, or as 1 - sqrt(p).
enum class decay_shape : uint8_t { cosine, linear, one_minus_sqrt };
/// Names of the decay shapes in a configuration, in the order of the enumerators.
inline constexpr std::array<std::string_view, 3> decay_shape_names{"cosine", "linear", "1-sqrt"};

/// How the learning rate changes over the steps; `constant`: it does not change.
enum class schedule_type : uint8_t {
  constant,
  warmup,
  warmup_decay,
  warmup_cosine,
  range_test,
  one_cycle,
  cosine_annealing,
  linear,
  polynomial,
  warm_restarts,
  cosine_with_restarts,
  warmup_stable_decay
};
/// Names of the schedules in a configuration: DeepSpeed's and PyTorch's classes, and values of `lr_scheduler_type` of
/// transformers. `constant` has no name.
inline constexpr std::array<std::string_view, 12> schedule_names{"",
                                                                 "WarmupLR",
                                                                 "WarmupDecayLR",
                                                                 "WarmupCosineLR",
                                                                 "LRRangeTest",
                                                                 "OneCycle",
                                                                 "CosineAnnealingLR",
                                                                 "LinearLR",
                                                                 "PolynomialLR",
                                                                 "CosineAnnealingWarmRestarts",
                                                                 "cosine_with_restarts",
                                                                 "warmup_stable_decay"};

/// Returns the name in a configuration.
constexpr std::string_view name_of(optimizer_type t) { return optimizer_names[static_cast<size_t>(t)]; }
/// Returns the name in a configuration; empty for `constant`.
constexpr std::string_view name_of(schedule_type t) { return schedule_names[static_cast<size_t>(t)]; }

/// Returns the name in a configuration.
constexpr std::string_view name_of(warmup_shape s) { return warmup_shape_names[static_cast<size_t>(s)]; }
/// Returns the name in a configuration.
constexpr std::string_view name_of(decay_shape s) { return decay_shape_names[static_cast<size_t>(s)]; }

/// Returns the optimizer with exactly this name; nullopt if there is none.
constexpr std::optional<optimizer_type> optimizer_type_from(std::string_view name) {
  const auto at = std::ranges::find(optimizer_names, name);
  if (at == optimizer_names.end()) return std::nullopt;
  return static_cast<optimizer_type>(at - optimizer_names.begin());
}
/// Returns the schedule with exactly this name; nullopt if there is none.
constexpr std::optional<schedule_type> schedule_type_from(std::string_view name) {
  const auto at = std::ranges::find(schedule_names, name);
  if (at == schedule_names.end()) return std::nullopt;
  return static_cast<schedule_type>(at - schedule_names.begin());
}
/// Returns the warm-up shape with exactly this name; nullopt if there is none.
constexpr std::optional<warmup_shape> warmup_shape_from(std::string_view name) {
  const auto at = std::ranges::find(warmup_shape_names, name);
  if (at == warmup_shape_names.end()) return std::nullopt;
  return static_cast<warmup_shape>(at - warmup_shape_names.begin());
}
/// Returns the decay shape with exactly this name; nullopt if there is none.
constexpr std::optional<decay_shape> decay_shape_from(std::string_view name) {
  const auto at = std::ranges::find(decay_shape_names, name);
  if (at == decay_shape_names.end()) return std::nullopt;
  return static_cast<decay_shape>(at - decay_shape_names.begin());
}

/// Options of a learning-rate schedule, named like the keys of DeepSpeed's scheduler section and like arguments of
/// torch.optim.lr_scheduler's classes and of transformers' schedules. `type` determines which of them are used;
/// `base_lr` and `rate_ratio`, which no key sets, differ between parameter groups.
struct schedule_options {
  /// Type of the schedule; constant: the rate is always `base_lr`.
  schedule_type type = schedule_type::constant;
  double warmup_min_lr = 0;
  /// Learning rate after the warm-up; none: `base_lr` for WarmupLR, 0.001 for WarmupDecayLR.
  std::optional<double> warmup_max_lr = std::nullopt;
  uint64_t warmup_num_steps = 1000;  ///< number of warm-up steps N, which is raised to at least 2
  uint64_t total_num_steps = 0;      ///< number T of all steps, for WarmupDecayLR and WarmupCosineLR
  warmup_shape warmup_type = warmup_shape::log;
  double warmup_min_ratio = 0;  ///< rate at which WarmupCosineLR's warm-up begins, as a fraction of `base_lr`
  double cos_min_ratio = 1e-4;
  double base_lr = 1e-3;  ///< learning rate of the parameter group
  /// Rate of this parameter group divided by the optimizer's; multiplies the schedule's own rates.
  double rate_ratio = 1;

  double lr_range_test_min_lr = 1e-3;
  uint64_t lr_range_test_step_size = 2000;  ///< number of steps of one LRRangeTest interval; at least 1
  double lr_range_test_step_rate = 1;
  bool lr_range_test_staircase = false;

  double cycle_min_lr = 0, cycle_max_lr = 0;  ///< lowest and highest rate of OneCycle's cycle
  double decay_lr_rate = 0;
  uint64_t cycle_first_step_size = 2000;  ///< number of steps of the rising half of OneCycle's cycle; at least 1
  /// Number of steps of the cycle's second half; none: as many as in the first half.
  std::optional<uint64_t> cycle_second_step_size = std::nullopt;
  uint64_t cycle_first_stair_count = 0;  ///< number of stairs in which the rate rises in OneCycle; 0: it rises smoothly
  /// Number of stairs of the cycle's second half; none: as many as in the first half.
  std::optional<uint64_t> cycle_second_stair_count = std::nullopt;
  uint64_t decay_step_size = 0;  ///< number of steps of one decay interval after OneCycle's cycle; 0: no decay
  bool cycle_momentum = true;
  double cycle_min_mom = 0.8, cycle_max_mom = 0.9;
  double decay_mom_rate = 0;

  uint64_t t_max = 0;  ///< number of steps of half a cosine period of CosineAnnealingLR; at least 1
  double eta_min = 0;
  double start_factor = 1.0 / 3, end_factor = 1;  ///< first and last factor on the rate, for LinearLR
  uint64_t total_iters = 5;                       ///< number of steps of LinearLR or PolynomialLR; at least 1
  double power = 1;                               ///< exponent of PolynomialLR

  uint64_t t_0 = 0;     ///< number of steps of CosineAnnealingWarmRestarts until its first restart; at least 1
  uint64_t t_mult = 1;  ///< factor by which each of its periods is longer than the one before; at least 1
  /// Number of steps in which the rate rises linearly from 0 to the first value of the schedule, which begins then; for
  /// warmup_stable_decay from `min_lr_ratio` * `base_lr`. Read by the schedules whose rate does not rise at first.
  uint64_t num_warmup_steps = 0;
  /// Number of all steps of cosine_with_restarts or warmup_stable_decay, with the warm-up.
  uint64_t num_training_steps = 0;
  uint64_t num_cycles = 1;       ///< number of cosine waves of cosine_with_restarts; at least 1
  uint64_t num_decay_steps = 0;  ///< number of steps of the last stage of warmup_stable_decay; at least 1
  decay_shape decay_type = decay_shape::cosine;
  double min_lr_ratio = 0;  ///< lowest rate of warmup_stable_decay, as a fraction of `base_lr`
};

/// Options of an exponential moving average of the trained weights.
struct average_options {
  double decay = 0.999;  ///< part of the average that a change of it keeps, from 0 to below 1
  uint64_t every = 1;    ///< number of updates from one change of the average to the next; at least 1
  uint64_t start = 0;    ///< number of updates up to which the average is the weights
  bool warmup = false;   ///< true: the n-th change keeps at most (1 + n) / (10 + n)
};
/// Name of the average among the optimizer's states in checkpoints, beside names such as `exp_avg`.
inline constexpr std::string_view average_state = "ema";

/// Options of dynamic loss scaling, named like the keys of DeepSpeed's fp16 section.
struct loss_scale_options {
  double loss_scale = 0;                ///< loss scale, fixed if above 0; 0: the scale is dynamic
  uint32_t initial_scale_power = 16;    ///< exponent of the first dynamic loss scale, which is 2^initial_scale_power
  uint64_t loss_scale_window = 1000;    ///< number of steps without overflow between two doublings of the loss scale;
                                        ///< at least 1
  uint32_t hysteresis = 2;              ///< number of overflows until the loss scale is halved; at least 1
  bool consecutive_hysteresis = false;  ///< true: every step without overflow refills the hysteresis
  double min_loss_scale = 1;
};

}  // namespace troupe::core
