// Reads files of a tokenizer's folder as text or JSON, and keys that may be missing or have an unexpected type.
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

/// Returns the text under `key`, or the `content` of a special token that is written as an object; empty for any other
/// value.
std::string json_text_of(const nlohmann::json& from, const char* key);

/// Returns the boolean under `key`; `otherwise` if the key is missing or its value is not a boolean.
bool json_flag_of(const nlohmann::json& from, const char* key, bool otherwise);

/// Returns the value of a key; null if `from` is not an object or lacks the key.
const nlohmann::json& json_value_of(const nlohmann::json& from, const char* key);

}  // namespace troupe::data
