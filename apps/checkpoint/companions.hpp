// Copies the files next to a model's weights that its users need and no command changes: tokenizer, chat templates,
// generation settings, Python modules of the model. Owns their names and the places to look in.
#pragma once

#include <filesystem>
#include <string>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::apps {

/// Copies a checkpoint's companion files into the folder `to`, whose config.json is `config`: from the folder of its
/// weights, or if that has none, from the folders of the tokenizer and the model that its run began with. For weights
/// in a GGUF file with a vocabulary, the tokenizer's files are made from that. Returns a sentence about Python modules
/// that `auto_map` names and that are not there, and about a vocabulary that cannot be written; empty if nothing is
/// missing.
core::result<std::string> copy_companions(const formats::tensor_source& from, const std::string& config,
                                          const std::filesystem::path& to);

/// Copies the companion files of a run's model from the folders of the run's tokenizer and model into the folder `to`,
/// which has the written config.json. Returns a sentence about files that are missing; empty if none is.
core::result<std::string> copy_companions(const config::job_config& run, const std::filesystem::path& to);

}  // namespace troupe::apps
