// Removes additional names of parameters' tensors from a source, if a checkpoint stores a tensor under several names:
// those of modules that share a weight, or of averaged weights. Owns which of a tensor's names stays.
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

}  // namespace troupe::formats
