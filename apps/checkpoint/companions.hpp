// Files beside a model's weights that its users need and no command changes: tokenizer, chat templates, settings of
// generation. Owns their names and where they are looked for.
#pragma once

#include <filesystem>

#include "checkpoint/source/tensor_source.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Copies those of a checkpoint into `to`: from beside its weights, else from where the run that wrote it had its
/// tokenizer and its model.
core::result<void> copy_companions(const checkpoint::tensor_source& from, const std::filesystem::path& to);

/// Copies those that a run had.
core::result<void> copy_companions(const config::job_config& run, const std::filesystem::path& to);

}  // namespace troupe::apps
