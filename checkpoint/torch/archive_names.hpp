// Gives a meaning to the names of Torch, DeepSpeed and numpy in a pickle. Pure lookups in a pickle_tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/torch/pickle_reader.hpp"
#include "core/dtype.hpp"

namespace troupe::checkpoint::torch_names {

/// Longest key that is read, in bytes; torch's are numbers, and keys are compared for every tensor.
inline constexpr size_t max_storage_key_bytes = 256;
/// A storage, stored as the tuple ('storage', class, key, location, numel[, view]); `location`, the original device, is
/// ignored.
struct storage {
  std::string_view key;
  std::string_view type_name;       ///< "FloatStorage"
  std::optional<core::dtype> type;  ///< element type; nothing for UntypedStorage and for types without a core::dtype
  /// If `type` is nothing: 1 for UntypedStorage, 0 for a type that torch does not have.
  uint64_t element_bytes = 0;
};
std::optional<storage> storage_id(const pickle_tree& tree, pickle_ref v);

/// Returns "FloatStorage" for fp32 and so on.
std::string_view storage_name(core::dtype type);

/// Returns the type that a global such as `torch.float32` names.
std::optional<core::dtype> dtype_of(const pickle_tree& tree, pickle_ref v);

/// Return the name of a type that torch has and Troupe does not read, from the global `torch.uint16` or from
/// `ComplexFloatStorage`; empty for all others.
std::string unread_dtype(const pickle_tree& tree, pickle_ref v);
std::string unread_storage(std::string_view type_name);

/// True if the global is one of the functions that make a tensor.
bool rebuilds_tensor(const pickle_tree& tree, pickle_ref global);

/// True if some code in checkpoint/ understands the global.
bool is_known(const pickle_tree& tree, pickle_ref global);

/// Returns the value of a member of DeepSpeed's ZeroStageEnum.
std::optional<int64_t> zero_stage(std::string_view member);

}  // namespace troupe::checkpoint::torch_names
