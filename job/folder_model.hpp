// The model that a folder of weights describes, and whether a checkpoint's description is a run's model: sizes and
// choices that change what is computed. No values are read but those of a head that config.json ties.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::checkpoint {
struct tensor_source;
}

namespace troupe::job {

/// The model of `folder`/config.json, as models::read_spec() reads it. A head that it ties and whose weights differ
/// from the embedding's is untied, which the spec's remark says.
core::result<models::model_spec> read_folder_model(const std::filesystem::path& folder,
                                                   std::span<const std::string> ignored);

/// Says that a job passes over a key (model.ignore_keys) that no table has and that stands in none of the descriptions
/// that it reads: `model`, its own; its teacher's; that of `loaded`, null where it begins with no checkpoint that a
/// person names. Nothing where one of them has it, or the teacher's cannot be read as a model.
std::optional<std::string> unused_ignored_key(const config::model_section& job, const models::model_spec& model,
                                              const checkpoint::tensor_source* loaded);

/// Refuses a checkpoint whose own description (config.json, a GGUF file's metadata, the keys of a run of ours) computes
/// otherwise than `model`, with the key; keys in `ignored` are not compared. Sizes that shapes follow from are compared
/// with the tensors when these are loaded. A head that is the embedding becomes its tied name in `from`; one with values
/// of its own is refused where `model` has none.
core::result<void> check_described_model(checkpoint::tensor_source& from, const models::model_spec& model,
                                         std::span<const std::string> ignored);

}  // namespace troupe::job
