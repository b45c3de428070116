// A manifest's JSON read: a guard over its events, which bounds everything, then nlohmann's tree, then each value by
// name and type. What the values mean together is check_manifest()'s, the seal manifest_text.hpp's.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// The text of a whole manifest. `knows_cuts`: its version has cuts of tensors. Errors: bad_input, naming the value.
core::result<manifest> read_manifest_tree(std::string_view text, bool knows_cuts);

/// A host's own JSON: its nesting is bounded, its keys and values are its business.
core::result<void> check_client_state(const std::string& text);

}  // namespace troupe::checkpoint
