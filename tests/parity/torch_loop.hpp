// Trains GPT-2 in a plain single-process LibTorch loop, with LibTorch's operations and autograd on whole parameters and
// one batch. Shares nothing with Troupe but the tokens and the initial weights. This header does not include Torch.
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

/// The distillation terms that are added to `cross_entropy` times the loss on the data.
struct taught_by {
  const torch_loop* teacher = nullptr;  ///< must outlive the loop that learns from it; null: no distillation
  enum class divergence : uint8_t { forward_kl, reverse_kl, jsd } kind = divergence::forward_kl;
  double cross_entropy = 1, logits = 0, temperature = 1, beta = 0.5;
  double hidden_states = 0, attention = 0;  ///< factors of the mean squared differences of hidden states and of
                                            ///< attention maps
  /// Pairs of indices in the model and in the teacher: `hidden` of hidden states, where 0 is the embedding's output,
  /// and `maps` of attention maps of blocks, counted from 0.
  std::vector<std::pair<int64_t, int64_t>> hidden = {}, maps = {};
  /// If not empty, replaces the whole loss by one term for each block i: the block computes from the teacher's hidden
  /// state `first`, and its output is compared with the teacher's hidden state `second`.
  std::vector<std::pair<int64_t, int64_t>> blocks = {};
};

struct torch_loop_options {
  int64_t layers = 0, width = 0, heads = 0;
  core::dtype type = core::dtype::f32;  ///< type in which forward and backward compute; weights and moments are fp32
  /// Bit width of the weights that linear layers multiply with (0: not quantised), and number of groups of each matrix,
  /// stored as (out, in), that have a separate symmetric grid. Gradients use the straight-through estimator.
  int64_t weight_bits = 0, weight_groups = 1;
  /// Bit width of the inputs of linear layers, with a grid for each token; 0: inputs are not quantised.
  int64_t input_bits = 0;
  /// Fractions of the elements and of the rows of linear layers that are kept: those with the largest initial weights.
  double kept_elements = 1, kept_rows = 1;
  /// Fraction of scores that is kept in weights named `MODULE.sparse_mask_scores`, `.row_mask_scores` and
  /// `.head_pruning_scores`; the mask's gradient passes to the scores by the straight-through estimator.
  double kept_scores = 1;
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 0, weight_decay = 0, clip = 1;
  double label_smoothing = 0, z_loss = 0;  ///< changes of the loss of a step; loss() has none of them
  taught_by distilled = {};
};

class torch_loop {
 public:
  /// Keys are Hugging Face's names of the weights; values are in row-major order.
  torch_loop(torch_loop_options options, const std::map<std::string, std::vector<int64_t>>& shapes,
             const std::map<std::string, std::vector<float>>& weights);
  ~torch_loop();

  /// Runs one AdamW step and returns the mean loss. `tokens` has `rows` rows; the last column is only a target.
  double step(const std::vector<int64_t>& tokens, int64_t rows);
  /// Returns the mean loss on the data, without an update and without distillation.
  double loss(const std::vector<int64_t>& tokens, int64_t rows) const;
  [[nodiscard]] std::vector<double> weight(const std::string& name) const;

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::tests
