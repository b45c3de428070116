// JSON files of a tokenizer's folder, and keys that may be missing or of another type than expected.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"

namespace troupe::data {

/// The object in the file. Refused: broken JSON, and anything but an object.
core::result<nlohmann::json> read_json_object(const std::filesystem::path& path);

/// As above; null where there is no such file.
core::result<nlohmann::json> read_json_if_there(const std::filesystem::path& path);

/// A text, or that of a special token, which may be an object with its text as `content`; empty for anything else.
std::string json_text_of(const nlohmann::json& from, const char* key);

/// A flag; `otherwise` where the key is missing or no flag.
bool json_flag_of(const nlohmann::json& from, const char* key, bool otherwise);

/// The value of a key; null where `from` is no object or lacks it.
const nlohmann::json& json_value_of(const nlohmann::json& from, const char* key);

}  // namespace troupe::data
