// What one model-state file of DeepSpeed lists: the module's tensors, and the names and shapes that its shards are cut
// by. Owns the keys of the file that are about tensors; those about the run are run.hpp's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/source/tensor_source.hpp"
#include "checkpoint/torch/archive.hpp"

namespace troupe::checkpoint {

using named_shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;
using named_tensors = std::vector<std::pair<std::string, torch_tensor>>;

struct deepspeed_lists {
  std::vector<unread_tensor> unread;  ///< of the module, in types that are not read
  named_tensors module;  ///< in the module's order; stage 3 leaves parameters empty, a pipeline all of them
  std::vector<std::string> buffers;
  bool has_groups = false;           ///< stage 0 lists none
  std::vector<named_shapes> groups;  ///< `param_shapes`: the order of the flat data
  named_shapes frozen;
  std::vector<std::pair<std::string, std::string>> shared;  ///< second name, first name
};

/// `file` outlives the result. Refused: what is no model-state file, a tensor that cannot be read.
core::result<deepspeed_lists> read_deepspeed_lists(const torch_archive& file);

/// The tensors of a dict in its order; values that are none are left out, tensors of types that are not read are added
/// to `unread`, or refused where that is null.
core::result<named_tensors> tensors_of(const torch_archive& file, pickle_ref dict,
                                       std::vector<unread_tensor>* unread = nullptr);

/// (second name, first name) of tensors that lie on the same bytes in the same shape.
std::vector<std::pair<std::string, std::string>> aliases_in(const named_tensors& tensors);

}  // namespace troupe::checkpoint
