// Reads the description of tensors in a model-state file of DeepSpeed: the module's tensors, and the names and shapes
// with which ZeRO shards are cut. Owns the keys of the file that describe tensors; run.hpp owns the keys that describe
// the run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "formats/source/tensor_source.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {

using named_shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;
using named_tensors = std::vector<std::pair<std::string, torch_tensor>>;

struct deepspeed_lists {
  std::vector<unread_tensor> unread;  ///< tensors of the module in types that are not read
  /// tensors in the module's order; parameters are empty tensors at stage 3, all tensors are in a pipeline
  named_tensors module;
  std::vector<std::string> buffers;
  bool has_groups = false;           ///< true: the file lists parameter groups; false at ZeRO stage 0
  std::vector<named_shapes> groups;  ///< `param_shapes` of each group, in the order of the flat data
  named_shapes frozen;
  std::vector<std::pair<std::string, std::string>> shared;  ///< pairs (second name, first name) of tied parameters
};

/// Reads the lists; `file` must outlive the result. Refused: a file that is not a model-state file, a tensor that
/// cannot be read.
core::result<deepspeed_lists> read_deepspeed_lists(const torch_archive& file);

/// Returns the tensors of a dict in its order; other values are left out. Tensors of types that are not read are added
/// to `unread`, or are an error if that is null.
core::result<named_tensors> tensors_of(const torch_archive& file, pickle_ref dict,
                                       std::vector<unread_tensor>* unread = nullptr);

/// Returns (second name, first name) of tensors on the same bytes with the same shape, strides and type.
std::vector<std::pair<std::string, std::string>> aliases_in(const named_tensors& tensors);

}  // namespace troupe::formats
