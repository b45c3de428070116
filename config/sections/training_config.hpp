// The part of job_config with the training of a model: optimizer, parameter groups, learning rate, precision.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/dtype.hpp"
#include "core/shard_optimizer.hpp"
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
  /// Rule of the program that embeds Troupe, for type `host`; no key sets it. Null: none.
  std::shared_ptr<const core::shard_optimizer> rule = {};
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

/// Configuration section `loss`: changes of the loss of each target in training, which evaluations do not have, and a
/// change of the model's logits, which everything that computes with the model has.
struct loss_section {
  double label_smoothing = 0;  ///< part of the wanted probability that all tokens of the vocabulary share, from 0 to 1
  double z_loss = 0;           ///< factor of the squared logarithm of the softmax's sum, which is added
  double logit_soft_cap = 0;   ///< logits x become cap * tanh(x / cap); 0: they stay as they are
};

/// Configuration section `ema`: an exponential moving average of the trained weights.
struct ema_section : core::average_options {
  bool given = false;     ///< true: the section was given, so the run keeps the average
  bool evaluate = false;  ///< true: evaluations compute with the average in place of the weights
};

struct fp16_section : core::loss_scale_options {  ///< configuration section `fp16`
  bool enabled = false;
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
  bool cpu_checkpointing = false;  ///< DeepSpeed's key; if true, job_config::offload_activations is cpu or nvme
};

}  // namespace troupe::config
