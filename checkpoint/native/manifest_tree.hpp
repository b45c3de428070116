// Reads a manifest's JSON: a guard over its events enforces the limits, then nlohmann builds the tree, then each value
// is read by name and type. Leaves the rules between values to check_manifest() and the seal to manifest_text.hpp.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Reads the text of a whole manifest. `knows_cuts`: true if the manifest's version stores how tensors are cut. Errors:
/// bad_input, whose text names the value.
core::result<manifest> read_manifest_tree(std::string_view text, bool knows_cuts);

/// Checks the client state of a host program, which is JSON with arbitrary keys and values of limited nesting.
core::result<void> check_client_state(const std::string& text);

}  // namespace troupe::checkpoint
