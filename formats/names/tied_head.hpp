// Decides, for a checkpoint whose model ties the head to the embedding, whether the head is a tied name or a tensor, as
// transformers 5 does. Owns the comparison of the two tensors' values; the caller adapts the model.
#pragma once

#include <string>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

struct settled_head {
  tensor_source source;
  /// sentence for the user if the head has values of its own; empty: the head is the embedding
  std::string own_values;
};

/// Makes a head with the embedding's values a tied name of the embedding. A head without an embedding in the source is
/// renamed to the embedding, and its own name becomes the tied one. A head with other values, or with optimizer states
/// of its own, stays a tensor. Reads both weights if both exist. `model_type` is the value in config.json.
core::result<settled_head> settle_tied_head(tensor_source s, const std::string& model_type);

}  // namespace troupe::formats
