// The forms a configuration's text comes in beside plain YAML and JSON. Leaves syntax to the readers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace troupe::config {

/// The JSON that a base64 text holds (plain or URL-safe alphabet, blanks between are fine), as launchers hand it on;
/// none when the text is not base64 or does not decode to a JSON object.
std::optional<std::string> json_in_base64(std::string_view text);

/// Whether a text without a telling name is JSON: it begins with a bracket.
bool looks_like_json(std::string_view text);

}  // namespace troupe::config
