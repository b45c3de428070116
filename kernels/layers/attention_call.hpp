// Causal attention with dropout by name instead of by a function: what a call hands to any device. Owns where a
// document's weights stand among the positions of their site.
#pragma once

#include "kernels/layers/causal_attention.hpp"
#include "kernels/layers/dropout.hpp"

namespace troupe::kernels {

/// The masks of a document that begins at column `first` of a row of `columns` tokens: the weight of (head, query,
/// key), counted in the document, stands at position ((first_head + head) * columns + first + query) * columns + first
/// + key.
struct attention_masks {
  dropout_key key;
  uint64_t columns = 0, first = 0;
  uint64_t first_head = 0;  ///< number in the model of the call's first query head
};

}  // namespace troupe::kernels
