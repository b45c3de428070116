// A plain single-process training loop for GPT-2 in LibTorch: its own ops, its own autograd, whole parameters, one
// batch. Shares nothing with Troupe but the tokens and the initial weights. No Torch in this header.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.hpp"

namespace troupe::tests {

class torch_loop;

/// What is added to the loss of the data, which counts `cross_entropy` times.
struct taught_by {
  const torch_loop* teacher = nullptr;  ///< outlives the loop that learns; null: there is none
  enum class divergence : uint8_t { forward_kl, reverse_kl, jsd } kind = divergence::forward_kl;
  double cross_entropy = 1, logits = 0, temperature = 1, beta = 0.5;
  double hidden_states = 0, attention = 0;  ///< of each mean squared difference
  /// Of these, its own and the teacher's: hidden states, 0 the embedding's, and attention maps of blocks, from 0.
  std::vector<std::pair<int64_t, int64_t>> hidden = {}, maps = {};
  /// Instead of all that, of block i: the teacher's hidden state that it takes, and the one that it should make of it.
  std::vector<std::pair<int64_t, int64_t>> blocks = {};
};

struct torch_loop_options {
  int64_t layers = 0, width = 0, heads = 0;
  core::dtype type = core::dtype::f32;  ///< of the arithmetic; weights and moments are fp32
  /// Linear layers multiply with weights of so many bits, each of `weight_groups` runs of the matrix as (out, in) on a
  /// symmetric grid of its own; gradients go straight through. 0: as they are.
  int64_t weight_bits = 0, weight_groups = 1;
  int64_t input_bits = 0;  ///< likewise of what they take, with a grid for each token
  /// The shares of their elements and of their rows that stay, the largest by the first weights; 1: all.
  double kept_elements = 1, kept_rows = 1;
  /// Of weights named `MODULE.sparse_mask_scores`, `.row_mask_scores`, `.head_pruning_scores` the share that stays; the
  /// mask's gradient goes straight to them.
  double kept_scores = 1;
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 0, weight_decay = 0, clip = 1;
  taught_by lesson = {};
};

class torch_loop {
 public:
  /// Weights by Hugging Face's names, row-major.
  torch_loop(torch_loop_options options, const std::map<std::string, std::vector<int64_t>>& shapes,
             const std::map<std::string, std::vector<float>>& weights);
  ~torch_loop();

  /// `tokens`: rows x columns; the last column is only a target. Mean loss; one AdamW step.
  double step(const std::vector<int64_t>& tokens, int64_t rows);
  /// The loss alone.
  double loss(const std::vector<int64_t>& tokens, int64_t rows) const;
  [[nodiscard]] std::vector<double> weight(const std::string& name) const;

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::tests
