// The parts of tensors' names that wrappers of modules add (torch.compile, FSDP, activation checkpointing, DDP), which
// are no part of the model. Owns the list of them; Hugging Face's own prefixes are name_map.hpp's.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// The name without `_orig_mod.`, `_fsdp_wrapped_module.`, `_checkpoint_wrapped_module.`, `_forward_module.`, `module.`
/// and the like, wherever they stand in it.
std::string without_wrappers(std::string_view name);

/// The source with such names, which a remark says; as it is where no name has such a part, or two tensors would get
/// one name.
core::result<tensor_source> unwrapped(tensor_source s);

}  // namespace troupe::checkpoint
