// Reads the model that a folder of weights describes, and checks whether a checkpoint's description matches a run's
// model: sizes and choices that change what is computed. Reads no values except those of a head that config.json ties.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::formats {
struct tensor_source;
}

namespace troupe::job {

/// Reads the model of `folder`/config.json by models::read_spec(). A tied head whose weights differ from the
/// embedding's is untied. The spec's remark reports this, and an adapter in the folder, which is not used.
core::result<models::model_spec> read_folder_model(const std::filesystem::path& folder,
                                                   std::span<const std::string> ignored);

/// Returns a warning that an ignored key (model.ignore_keys) has no effect: no table lists it, and none of the
/// descriptions that the job reads contains it. The descriptions are the job's own `model`, the teacher's, and that of
/// `loaded`; `loaded` is null if the user names no checkpoint to start from. Returns nullopt if one of them contains
/// the key, or if the teacher's cannot be read as a model.
std::optional<std::string> unused_ignored_key(const config::model_section& job, const models::model_spec& model,
                                              const formats::tensor_source* loaded);

/// Refuses a checkpoint whose own description (config.json, a GGUF file's metadata, the keys of a Troupe run) computes
/// differently than `model`, and names the key; keys in `ignored` are not compared. Sizes that determine shapes are
/// compared with the tensors when these are loaded. A head that equals the embedding gets its tied name in `from`; a
/// head with values of its own is refused if `model` has none.
core::result<void> check_described_model(formats::tensor_source& from, const models::model_spec& model,
                                         std::span<const std::string> ignored);

}  // namespace troupe::job
