// Recognises forms of a configuration's text other than plain YAML and JSON, such as base64. Does not parse the text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace troupe::config {

/// Returns the JSON that a base64 text contains (plain or URL-safe alphabet, with optional blanks), in which launchers
/// pass configurations on; nullopt if the text is not base64 or does not decode to a JSON object.
std::optional<std::string> json_in_base64(std::string_view text);

/// True if a text begins with a bracket and is therefore read as JSON; for texts whose name has no .json or .yaml
/// extension.
bool looks_like_json(std::string_view text);

}  // namespace troupe::config
