// Removes the parts of tensors' names that wrappers of modules add (torch.compile, FSDP, activation checkpointing,
// DDP). Owns the list of these parts; leaves Hugging Face's own prefixes to name_map.hpp.
#pragma once

#include <string>
#include <string_view>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Returns the name without `_orig_mod.`, `_fsdp_wrapped_module.`, `_checkpoint_wrapped_module.`, `_forward_module.`,
/// `module.` and similar parts, at any position.
std::string without_wrappers(std::string_view name);

/// Returns the source with without_wrappers() applied to all names, and a remark about the removed parts. Returns the
/// source unchanged if no name has such a part, or if two names would become equal.
core::result<tensor_source> unwrapped(tensor_source s);

}  // namespace troupe::formats
