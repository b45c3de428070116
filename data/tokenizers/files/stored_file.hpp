// Reads one file of a tokenizer from the disk, as text or JSON. Files that are made from a file of another program are
// left to tokenizer_folder.hpp.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"

namespace troupe::data {

/// Returns the whole text of the file `path`. Refused: a git-lfs pointer, and more than max_tokenizer_bytes (limit).
core::result<std::string> stored_text(const std::filesystem::path& path);

/// Returns the JSON object that is the `text` of the file `path`. Refused: broken JSON, and any JSON value but an
/// object.
core::result<nlohmann::json> object_in_text(const std::filesystem::path& path, const std::string& text);

/// Returns the JSON object in the file `path`; null if the file does not exist. Refused: broken JSON, and any JSON
/// value but an object.
core::result<nlohmann::json> stored_object_if_there(const std::filesystem::path& path);

}  // namespace troupe::data
