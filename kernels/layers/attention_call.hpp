// Arguments of causal attention that work on any device: they name the dropout of a document's attention weights, where
// the CPU kernel is passed a function. Owns the positions of these weights in the dropout's random stream.
#pragma once

#include "kernels/layers/causal_attention.hpp"
#include "kernels/layers/dropout.hpp"

namespace troupe::kernels {

/// The dropout of the attention weights of a document that begins at column `first` of a row of `columns` tokens. The
/// weight of (head, query, key), with query and key counted from the document's start, has position ((first_head +
/// head) * columns + first + query) * columns + first + key in the random stream.
struct attention_masks {
  dropout_key key;
  uint64_t columns = 0, first = 0;
  uint64_t first_head = 0;  ///< index, among all query heads of the model's layer, of the first query head of this call
};

}  // namespace troupe::kernels
