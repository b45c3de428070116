// Rotary position embedding: pairs of a head's elements are rotated by an angle that grows with the token's position.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/dtype.hpp"
#include "models/layers/functions.hpp"

namespace troupe::models {

/// Tables of the cosines and sines of all angles, each (positions, head_width / 2), in fp32 (fp64 for fp64). Element i
/// of a head is rotated with element i + head_width / 2, as Hugging Face stores Llama's weights. Source: Su et al. 2021
/// (arXiv:2104.09864), section 3.
struct rotary_angles {
  rotary_angles(double theta, uint32_t head_width, uint64_t positions, core::dtype type, at::Device where);
  at::Tensor cosines, sines;
};

/// Rotates the heads of q (B, T, heads * D) and k (B, T, kv_heads * D) by the tokens' positions, and returns q, k and v
/// of each token next to each other, as causal_attention requires.
at::Tensor rotate_and_pack(const segment_scope& scope, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const attention_shape& shape, const rotary_angles& angles);

}  // namespace troupe::models
