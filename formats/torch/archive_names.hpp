// Interprets the names of Torch, DeepSpeed and numpy in a pickle, by lookups in tables and in the pickle_tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/dtype.hpp"
#include "formats/torch/pickle_reader.hpp"

namespace troupe::formats::torch_names {

/// Longest key of a storage that is read, in bytes. Torch's keys are short numbers; they are compared for every tensor.
inline constexpr size_t max_storage_key_bytes = 256;
/// A storage, which the pickle describes by the tuple ('storage', class, key, location, numel[, view]). `location`, the
/// original device, is ignored.
struct storage {
  std::string_view key;
  std::string_view type_name;       ///< name of the storage's class, such as "FloatStorage"
  std::optional<core::dtype> type;  ///< element type; nothing for UntypedStorage and for types without a core::dtype
  /// Size of an element in bytes if `type` is nothing: 1 for UntypedStorage, the size that torch defines for a type
  /// without a core::dtype, 0 for a type that torch does not have.
  uint64_t element_bytes = 0;
};
std::optional<storage> storage_id(const pickle_tree& tree, pickle_ref v);

/// Returns the name of torch's storage class for elements of `type`: "FloatStorage" for fp32.
std::string_view storage_name(core::dtype type);

/// Returns the type that a global such as `torch.float32` names; nothing for any other value.
std::optional<core::dtype> dtype_of(const pickle_tree& tree, pickle_ref v);

/// Returns the name of a type that torch has and Troupe does not read, from a global such as `torch.uint16`. The
/// function unread_storage() returns it from the name of a class such as `ComplexFloatStorage`. Empty for all other
/// types.
std::string unread_dtype(const pickle_tree& tree, pickle_ref v);
std::string unread_storage(std::string_view type_name);

/// True if the global names one of the functions that make a tensor.
bool rebuilds_tensor(const pickle_tree& tree, pickle_ref global);

/// True if code in checkpoint/ interprets the name that the value `global` of a pickle imports; reports then do not
/// list this name as unknown.
bool is_known(const pickle_tree& tree, pickle_ref global);

/// Returns the ZeRO stage that a member of DeepSpeed's ZeroStageEnum means; nothing for an unknown name.
std::optional<int64_t> zero_stage(std::string_view member);

}  // namespace troupe::formats::torch_names
