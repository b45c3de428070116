// Arguments of causal attention for any device, which name a dropout instead of passing a function. Owns the positions
// of a document's attention weights within their dropout site.
#pragma once

#include "kernels/layers/causal_attention.hpp"
#include "kernels/layers/dropout.hpp"

namespace troupe::kernels {

/// Dropout masks of a document that begins at column `first` of a row of `columns` tokens. The weight of (head, query,
/// key), counted within the document, has position ((first_head + head) * columns + first + query) * columns + first +
/// key.
struct attention_masks {
  dropout_key key;
  uint64_t columns = 0, first = 0;
  uint64_t first_head = 0;  ///< number in the model of the first query head of the call
};

}  // namespace troupe::kernels
