// Finds the dictionary of the model in a torch.save file, and the other contents with tensors. Owns the names that
// programs use for such dictionaries; leaves listing the tensors to torch.hpp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {

/// The tensors of the model in a file, and the contents that were left out.
struct torch_contents {
  /// Name and value of each tensor, in the file's order; the later value of a repeated key counts.
  std::vector<std::pair<std::string, pickle_ref>> tensors;
  /// Key of the model's dictionary, for messages, if it is the only dictionary of tensors and its key is none of the
  /// usual ones; else empty.
  std::string dictionary;
  std::vector<std::string> left_out;  ///< names of the file's other contents with tensors, for messages
};

/// Returns the contents of a file. The model's dictionary is the first of `module`, `model`, `state_dict` and
/// `model_state_dict` that has tensors, nested up to 4 deep; else the file's top dictionary, if one of its tensors
/// is more than a single number; else the only dictionary of tensors in it; else the top dictionary. Refused
/// (bad_input): a file without tensors, several dictionaries of tensors in a top dictionary without own tensors, and an
/// empty dictionary of the model next to the only dictionary of tensors.
core::result<torch_contents> contents_of(const torch_archive& archive);

}  // namespace troupe::formats
