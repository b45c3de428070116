// The part of job_config with the training of a model: optimizer, parameter groups, learning rate, precision.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/dtype.hpp"
#include "core/training_types.hpp"

namespace troupe::config {

/// Configuration section `optimizer`; the defaults here are AdamW's, and load fills in the defaults of other types
/// where they differ.
struct optimizer_section {
  core::optimizer_type type = core::optimizer_type::adamw;
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool adam_w_mode = true;
  bool bias_correction = true;
  double momentum = 0.0;                      ///< factor of the earlier momentum; read by sgd and muon only
  double dampening = 0.0;                     ///< part of the gradient that the momentum leaves out, from 0 to 1; read
                                              ///< by sgd only
  bool nesterov = false;                      ///< true: Nesterov's form of the momentum; read by sgd and muon only
  double lr_decay = 0.0;                      ///< rate divided by 1 + (number of earlier updates) * lr_decay; read by
                                              ///< adagrad only
  double initial_accumulator_value = 0.0;     ///< first value of the sums of squared gradients; read by adagrad only
  double max_coeff = 10.0, min_coeff = 0.01;  ///< bounds of the trust ratio; read by lamb only
  uint32_t ns_steps = 5;                      ///< number of Newton-Schulz iterations; read by muon only
  /// Learning rates of the matrices that Muon updates, and of all other parameters, which Adam updates; nullopt: `lr`.
  std::optional<double> muon_lr, adam_lr = {};
};

/// Settings of the parameters whose name a pattern matches.
struct parameter_group {
  /// Pattern (RE2) that is searched in the parameters' names; a parameter belongs to the first group whose pattern
  /// matches.
  std::string match;
  /// learning rate and weight decay of the group; nullopt: the optimizer's own values
  std::optional<double> lr, weight_decay;
  bool trainable = true;
};

/// Configuration section `scheduler.params`. Fields have the names of the keys; which of them are used depends on
/// `type`.
struct scheduler_section {
  core::schedule_type type = core::schedule_type::constant;
  double warmup_min_lr = 0.0;
  std::optional<double> warmup_max_lr;
  uint64_t warmup_num_steps = 1000;
  uint64_t total_num_steps = 0;
  core::warmup_shape warmup_type = core::warmup_shape::log;
  double warmup_min_ratio = 0.0;
  double cos_min_ratio = 1e-4;
  double lr_range_test_min_lr = 1e-3;
  uint64_t lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1.0;
  bool lr_range_test_staircase = false;
  /// Lowest and highest learning rate of the cycle; read by OneCycle only, which requires both.
  double cycle_min_lr = 0.0, cycle_max_lr = 0.0;
  double decay_lr_rate = 0.0;
  uint64_t cycle_first_step_size = 2000;
  /// Number of steps of the cycle's second half; nullopt: equal to cycle_first_step_size.
  std::optional<uint64_t> cycle_second_step_size;
  uint64_t cycle_first_stair_count = 0;
  /// Number of stairs of the cycle's second half; nullopt: equal to cycle_first_stair_count.
  std::optional<uint64_t> cycle_second_stair_count;
  uint64_t decay_step_size = 0;
  bool cycle_momentum = true;
  double cycle_min_mom = 0.8, cycle_max_mom = 0.9;
  double decay_mom_rate = 0.0;
  uint64_t t_max = 0;  ///< number of steps of half a cosine period; read by CosineAnnealingLR only, which requires it
  double eta_min = 0.0;
  double start_factor = 1.0 / 3, end_factor = 1.0;  ///< factors of the rate at the first step and after total_iters
                                                    ///< steps; read by LinearLR only
  uint64_t total_iters = 5;                         ///< number of steps in which the rate changes; read by LinearLR and
                                                    ///< PolynomialLR only
  double power = 1.0;                               ///< exponent of the polynomial by which the rate falls; read by
                                                    ///< PolynomialLR only
};

struct fp16_section {  ///< configuration section `fp16`
  bool enabled = false;
  double loss_scale = 0;  ///< fixed loss scale; 0: the scale is adjusted dynamically
  uint32_t initial_scale_power = 16;
  uint64_t loss_scale_window = 1000;
  uint32_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  double min_loss_scale = 1;
};

struct bf16_section {  ///< configuration section `bf16`
  bool enabled = false;
  bool check_grad_overflow = true;
};

struct data_types_section {  ///< configuration section `data_types`
  std::optional<core::dtype> grad_accum_dtype;
  /// True: parameters, states and computations are fp64, as a reference (key: data_types.param_dtype: fp64).
  bool reference_fp64 = false;
};

struct activation_checkpointing_section {  ///< configuration section `activation_checkpointing`
  bool enabled = false;                    ///< Troupe's key; true: backward recomputes every unit from its stored input
  bool selective = false;  ///< Troupe's key; true: with `enabled`, only the matrix products after norms are recomputed
  /// DeepSpeed's key; true: stored activations are split over tensor ranks by tokens, as with parallel.sharded_norms.
  bool partition_activations = false;
  bool cpu_checkpointing = false;          ///< DeepSpeed's key; if true, job_config::offload_activations is cpu or nvme
};

}  // namespace troupe::config
