// Writes a folder of PEFT with a LoRA adapter as a GGUF file that llama.cpp loads next to its base model, for
// `troupe checkpoint to-gguf`.
#pragma once

#include <filesystem>
#include <string>

#include "apps/checkpoint/written_formats.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// True if `path` is a folder that has the weights of an adapter and is no checkpoint of a whole model.
bool holds_adapter_alone(const std::filesystem::path& path);

/// Writes the adapter in the folder `a.source.path`. `type`: type of the matrices; empty: f32. The base model is that
/// of `a.model_config` or, without it, of the config.json in the folder that the adapter names as its base. Refused: a
/// base that is not described, or whose family GGUF files do not know; layers that the base does not have; parameters
/// of `modules_to_save`, which such a file cannot hold; a type other than f32, f16 and bf16; options that are for whole
/// models.
core::result<void> write_adapter_gguf(const conversion_arguments& a, const std::string& type);

}  // namespace troupe::apps
