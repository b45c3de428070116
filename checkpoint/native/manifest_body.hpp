// Writes a manifest's JSON by hand, so that its bytes are fixed. Leaves the sealed first line to manifest_text.hpp.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/native/manifest.hpp"

namespace troupe::checkpoint {

/// Returns the JSON text of a manifest that follows its sealed first line. Throws nlohmann::json::exception if a string
/// of the manifest is not UTF-8.
std::string manifest_body(const manifest& m);

/// Returns the oldest manifest version that can express all of `m`.
uint32_t manifest_version_for(const manifest& m);

}  // namespace troupe::checkpoint
