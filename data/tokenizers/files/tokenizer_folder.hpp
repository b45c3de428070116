// Reads files of a tokenizer's folder as text or JSON. Their keys are read by text/json_keys.hpp.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"

namespace troupe::data {

/// Returns the whole text of a tokenizer's file. Refused: a git-lfs pointer, and more than max_tokenizer_bytes (limit).
core::result<std::string> read_tokenizer_file(const std::filesystem::path& path);

/// Returns the JSON object in the file `path`. Refused: broken JSON, and any JSON value but an object.
core::result<nlohmann::json> read_json_object(const std::filesystem::path& path);

/// Returns the JSON object in the file `path`; null if the file does not exist. Refused: broken JSON, and any JSON
/// value but an object.
core::result<nlohmann::json> read_json_if_there(const std::filesystem::path& path);

}  // namespace troupe::data
