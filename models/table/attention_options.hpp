// Options of the attention of one layer: how scores follow from products of queries and keys. No Torch here.
#pragma once

#include <cmath>
#include <cstdint>

namespace troupe::models {

/// Options of the attention of one layer. The score of a key is the product of query and key times the scale; with a
/// cap it becomes soft_cap * tanh(score / soft_cap). The weights are the softmax of the scores of the keys that the
/// query sees.
struct attention_options {
  double scale = 0;         ///< factor of the products; 0: 1 / sqrt(head width)
  std::int64_t window = 0;  ///< number of tokens that a token attends to, including itself; 0: all
  double soft_cap = 0;      ///< limit that scores approach; 0: none
  /// False: a query also sees the tokens of its document after itself; `window` must then be 0.
  bool causal = true;

  [[nodiscard]] double scale_of(std::int64_t head_width) const {
    return scale > 0 ? scale : 1.0 / std::sqrt(static_cast<double>(head_width));
  }
};

}  // namespace troupe::models
