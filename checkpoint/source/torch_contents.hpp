// Which dictionary of a file of torch.save is the model's, and what else in the file holds tensors. Owns the names that
// programs give such dictionaries; the tensors themselves are torch.hpp's to list.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/torch/archive.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// What a file holds for a model.
struct torch_contents {
  std::vector<std::pair<std::string, pickle_ref>> tensors;  ///< in the file's order; of a key set twice the later one
  std::vector<std::string> left_out;                        ///< what else holds tensors, for people
};

/// The model's dictionary is the first of `module`, `model`, `state_dict` and `model_state_dict` that holds tensors,
/// however many of these lie in one another; else the file's own, if it holds more than single numbers; else the only
/// dictionary of tensors in it. Refused (bad_input): a file without such a dictionary, or with several.
core::result<torch_contents> contents_of(const torch_archive& archive);

}  // namespace troupe::checkpoint
