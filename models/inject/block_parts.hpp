// The layers of a block of the host program, found by their roles, and how the block computes with them. Owns the
// description; block.cpp finds the parts, fused_block.cpp computes with them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "models/inject/block.hpp"
#include "models/inject/layer_policy.hpp"

namespace torch::nn {
class LayerNormImpl;
class LinearImpl;
}  // namespace torch::nn

namespace troupe::models {

using linear_layer = std::shared_ptr<torch::nn::LinearImpl>;

/// A norm of the host program: torch's LayerNorm, or the weight of an RMS norm of the host's own class.
struct host_norm {
  std::shared_ptr<torch::nn::LayerNormImpl> layer;  // null: an RMS norm
  at::Tensor scale;                                 // weight of an RMS norm, as its module registered it
  double epsilon = 0;
};

/// One half of a block: its norm, its first linear layers and its last one. An attention half has one first layer
/// (packed) or three; an MLP has one, or two of which the first is the gate.
struct block_half {
  std::optional<host_norm> norm;
  std::vector<linear_layer> inputs;
  linear_layer last;  // null: the half ends with the outputs of its only first layer
};

/// The parts of a block and how it computes with them.
struct block_parts {
  std::optional<block_half> attention, mlp;
  norm_order order = norm_order::before;
  qkv_packing packing = qkv_packing::side_by_side;
  mlp_activation act = mlp_activation::gelu_tanh;
  bool adds_input = true, causal = true, packs_gate = false;
  int64_t head_width = 0, group = 1;  // width of a head, and query heads for each key-value head
  double rotary_base = 0;             // 0: queries and keys are not rotated
};

/// Returns a function that computes a block of these parts as one segment of Troupe's layers. It reads the weights of
/// the parts at each call.
tensor_function fused_forward(block_parts parts);

}  // namespace troupe::models
