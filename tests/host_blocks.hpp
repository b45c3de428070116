// Defines an embedding program's own attention and MLP with residual paths, which tests split over tensor ranks.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "models/host/module_model.hpp"

namespace troupe::tests {

constexpr int64_t block_width = 24, block_heads = 6, block_inner = 38, block_vocabulary = 50;

struct host_mlp : torch::nn::Module {
  explicit host_mlp(double dropout = 0)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({block_width})))),
        up(register_module("up", torch::nn::Linear(block_width, block_inner))),
        down(register_module("down", torch::nn::Linear(block_inner, block_width))),
        drop(register_module("drop", torch::nn::Dropout(dropout))) {}
  at::Tensor forward(const at::Tensor& x) { return x + drop(down(at::gelu(up(norm(x))))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
  torch::nn::Dropout drop;
};

/// An attention layer that computes its number of heads from the width of its projection's output.
struct host_attention : torch::nn::Module {
  host_attention()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({block_width})))),
        qkv(register_module("qkv", torch::nn::Linear(block_width, 3 * block_width))),
        proj(register_module("proj", torch::nn::Linear(block_width, block_width))) {}
  at::Tensor forward(const at::Tensor& x) {
    const auto parts = qkv(norm(x)).chunk(3, -1);
    const auto heads = [&](const at::Tensor& t) {
      return t.reshape({x.size(0), x.size(1), -1, block_width / block_heads}).transpose(1, 2);
    };
    const at::Tensor scores = heads(parts[0]).matmul(heads(parts[1]).transpose(2, 3)) * 0.5;
    const at::Tensor later = at::ones({x.size(1), x.size(1)}, at::kBool).triu(1);
    const at::Tensor mixed = at::softmax(scores.masked_fill(later, -1e4), -1).matmul(heads(parts[2]));
    return x + proj(mixed.transpose(1, 2).reshape({x.size(0), x.size(1), -1}));
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear qkv, proj;
};

inline models::injection_policy block_policy() {
  using core::tp_style;
  const auto width = static_cast<uint64_t>(block_width);
  return {.rules = {{"words|head", tp_style::vocabulary},
                    {R"(attention .*\.qkv)", tp_style::column, {width, width, width}, block_heads},
                    {R"(attention .*\.proj)", tp_style::row, {}, block_heads},
                    {R"(mlp .*\.up)", tp_style::column},
                    {R"(mlp .*\.down)", tp_style::row}}};
}

/// Returns a model with an embedding, `blocks` pairs of attention and MLP, a norm and a head. All modules are torch's
/// or defined in this file; none is Troupe's.
inline models::module_model host_blocks(double dropout = 0, int blocks = 2) {
  using models::unit;
  std::vector<models::module_unit> units = {unit("words", torch::nn::Embedding(block_vocabulary, block_width))};
  for (int i = 0; i < blocks; ++i) {
    units.push_back(unit(fmt::format("attention {}", i), std::make_shared<host_attention>()));
    units.push_back(unit(fmt::format("mlp {}", i), std::make_shared<host_mlp>(dropout)));
  }
  units.push_back(unit("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({block_width}))));
  units.push_back(unit("head", torch::nn::Linear(block_width, block_vocabulary)));
  return {std::move(units), [](const at::Tensor& y, const at::Tensor& target) {
            return torch::nn::functional::cross_entropy(y.reshape({-1, y.size(-1)}), target.reshape({-1}));
          }};
}

}  // namespace troupe::tests
