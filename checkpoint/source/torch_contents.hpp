// Finds the dictionary of a torch.save file that is the model's, and the other contents that hold tensors. Owns the
// names that programs give such dictionaries; leaves listing the tensors to torch.hpp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/torch/archive.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// The tensors of the model in a file, and the contents that were left out.
struct torch_contents {
  /// Name and value of each tensor, in the file's order; a repeated key has its later value.
  std::vector<std::pair<std::string, pickle_ref>> tensors;
  std::vector<std::string> left_out;  ///< names of other contents with tensors, for messages
};

/// Returns the contents of a file. The model's dictionary is the first of `module`, `model`, `state_dict` and
/// `model_state_dict` that holds tensors, however deeply these are nested; else the file's top dictionary, if it holds
/// more than single numbers; else the only dictionary of tensors in it. Refused (bad_input): a file without such a
/// dictionary, or with several.
core::result<torch_contents> contents_of(const torch_archive& archive);

}  // namespace troupe::checkpoint
