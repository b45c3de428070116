// Decides which name a tensor keeps if a checkpoint has several names for it: because modules share a weight, because
// the file also has an averaged model, or because the model ties its head to the embedding, as transformers 5 does.
// Owns the comparison of the head's values with the embedding's; the caller adapts the model.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/names/layer_names.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

struct without_further {
  tensor_source source;
  std::vector<std::string> left_out;  ///< names that were removed from the source, ascending
};

/// Returns the source in which each tensor of a wanted parameter has only the name of that parameter. Three kinds of
/// names stay: a head's, since models tie the head to the embedding; those of derived buffers (is_derived_buffer());
/// and all names of tensors that belong to no wanted parameter.
core::result<without_further> without_further_names(tensor_source s, std::span<const wanted_tensor> wanted);

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
