// What Torch's, DeepSpeed's and numpy's names in a pickle mean here. Pure lookups over a pickle_tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/torch/pickle_reader.hpp"
#include "core/dtype.hpp"

namespace troupe::checkpoint::torch_names {

/// ('storage', class, key, location, numel[, view]): `location`, the device it came from, is not looked at.
inline constexpr size_t max_storage_key_bytes = 256;  ///< torch's are numbers; compared for every tensor
struct storage {
  std::string_view key;
  std::string_view type_name;       ///< "FloatStorage"
  std::optional<core::dtype> type;  ///< nothing for UntypedStorage and for types without a dtype here
  uint64_t element_bytes = 0;       ///< where `type` is nothing: 1 for UntypedStorage, 0 for what torch has not
};
std::optional<storage> storage_id(const pickle_tree& tree, pickle_ref v);

/// "FloatStorage" of fp32 and so on.
std::string_view storage_name(core::dtype type);

/// The global `torch.float32` and the like.
std::optional<core::dtype> dtype_of(const pickle_tree& tree, pickle_ref v);

/// The name of a type that torch has and nothing here reads: of the global `torch.uint16`, of `ComplexFloatStorage`;
/// empty for all others.
std::string unread_dtype(const pickle_tree& tree, pickle_ref v);
std::string unread_storage(std::string_view type_name);

/// Whether the global is one of the functions that make a tensor.
bool rebuilds_tensor(const pickle_tree& tree, pickle_ref global);

/// Whether the global has a meaning somewhere in checkpoint/.
bool is_known(const pickle_tree& tree, pickle_ref global);

/// The value of a member of DeepSpeed's ZeroStageEnum.
std::optional<int64_t> zero_stage(std::string_view member);

}  // namespace troupe::checkpoint::torch_names
