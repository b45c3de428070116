// Recognises tensor names that wrappers of modules have changed. Removes the parts that torch.compile, FSDP, activation
// checkpointing and DDP add. Recognises PEFT's names, whose tensors are only an adapter or a model with an adapter
// beside its weights, and owns the sentences that refuse them. Leaves Hugging Face's own prefixes to name_map.hpp, and
// folders that hold only an adapter to checkpoint/convert.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Returns the name without `_orig_mod.`, `_fsdp_wrapped_module.`, `_checkpoint_wrapped_module.`, `_forward_module.`,
/// `module.` and similar parts, at any position.
std::string without_wrappers(std::string_view name);

/// Returns the source with without_wrappers() applied to all names, unless two names would become equal, and with
/// remarks about the removed parts and about PEFT's names.
core::result<tensor_source> unwrapped(tensor_source s);

/// True for `base_model.model.x`, `x.base_layer.weight`, `x.lora_A.weight` and similar names, with or without the parts
/// that other wrappers add.
bool is_peft_name(std::string_view name);

/// Returns the predicate of an error sentence about a file or folder, "holds a model that PEFT wraps, as '...': merge
/// ..."; nothing if is_peft_name() is false for all names.
std::optional<std::string> peft_finding(const std::vector<std::string_view>& names);
std::optional<std::string> peft_finding(const tensor_source& s);

/// Text for messages that names the ways in which a person merges the adapter of a folder into its base model.
inline constexpr std::string_view merge_by =
    "(`troupe checkpoint merge-adapter`, or peft's merge_and_unload() and save_pretrained())";

/// File with the options of an adapter, next to `adapter_model.safetensors` or `adapter_model.bin`.
inline constexpr std::string_view adapter_config_name = "adapter_config.json";

/// Returns the name of the adapter's weights in `folder`; empty if there are none.
std::string adapter_weights_in(const std::filesystem::path& folder);

/// Returns a sentence about an adapter in a folder whose whole model is read: its changes of the weights are not
/// applied. Returns nothing for a folder without an adapter.
std::optional<std::string> unused_adapter_in(const std::filesystem::path& folder);

}  // namespace troupe::formats
