// Recognises names of tensors that PEFT's wrappers make: an adapter, or a model with an adapter next to its weights.
// Owns the list of these names, the sentence that every refusal uses, and the sentence about an adapter next to a whole
// model. Leaves folders that hold only an adapter to folder_contents.hpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// True for `base_model.model.x`, `x.base_layer.weight`, `x.lora_A.weight` and similar names, with or without the parts
/// that other wrappers add.
bool is_peft_name(std::string_view name);

/// Returns the predicate of an error sentence about a file or folder, "holds a model that PEFT wraps, as '...': merge
/// ..."; nothing if is_peft_name() is false for all names.
std::optional<std::string> peft_finding(const std::vector<std::string_view>& names);
std::optional<std::string> peft_finding(const tensor_source& s);

/// Text for messages that names the calls by which a person merges an adapter into its base model.
inline constexpr std::string_view merge_by = "(peft's merge_and_unload(), then save_pretrained())";

/// File with the options of an adapter, next to `adapter_model.safetensors` or `adapter_model.bin`.
inline constexpr std::string_view adapter_config_name = "adapter_config.json";

/// Returns the name of the adapter's weights in `folder`; empty if there are none.
std::string adapter_weights_in(const std::filesystem::path& folder);

/// Returns a sentence about an adapter in a folder whose whole model is read: its changes of the weights are not
/// applied. Returns nothing for a folder without an adapter.
std::optional<std::string> unused_adapter_in(const std::filesystem::path& folder);

}  // namespace troupe::formats
