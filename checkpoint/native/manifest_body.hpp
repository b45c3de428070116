// A manifest's JSON written, by hand, so that the bytes are ours. The seal in front of it is manifest_text.hpp's.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/native/manifest.hpp"

namespace troupe::checkpoint {

/// What stands behind the sealed line. Throws nlohmann::json::exception where a text is not UTF-8.
std::string manifest_body(const manifest& m);

/// The oldest version that says all of it.
uint32_t manifest_version_for(const manifest& m);

}  // namespace troupe::checkpoint
