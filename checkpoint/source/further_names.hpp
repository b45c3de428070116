// Removes the further names under which a checkpoint stores the tensors of its parameters: of modules that share their
// weights, and of averages. Owns which of a tensor's names stays.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/source/layer_names.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct without_further {
  tensor_source source;
  std::vector<std::string> left_out;  ///< removed names, ascending
};

/// Returns the source in which each tensor of a wanted parameter has only the name of that parameter. A head's name
/// stays, since models tie it to the embedding; so do buffers, and all names of tensors that no parameter has.
core::result<without_further> without_further_names(tensor_source s, std::span<const wanted_tensor> wanted);

}  // namespace troupe::checkpoint
