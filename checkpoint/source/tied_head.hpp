// The head of a checkpoint whose model ties it to the embedding, as transformers 5 reads it: owns which of the two
// names stays and whether their values are one. What follows for the model is the caller's business.
#pragma once

#include <string>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct settled_head {
  tensor_source source;
  std::string own_values;  ///< a sentence for people where the head has values of its own; empty: it is the embedding
};

/// A head with the embedding's values becomes a tied name of it, and a head without an embedding beside it the
/// embedding. A head with other values, or with states of its own, stays a tensor. Reads both weights where both are
/// there. `model_type` is config.json's.
core::result<settled_head> settle_tied_head(tensor_source s, const std::string& model_type);

}  // namespace troupe::checkpoint
