// The entry to load.hpp for settings that were never text: the tree that a program has made.
#pragma once

#include <filesystem>
#include <string>

#include "config/document/document.hpp"
#include "config/load.hpp"

namespace troupe::config {

/// Validates `tree`, whose nodes are of source 0, as load_text() validates the tree of a text. A tree without a root
/// has problems that say why. `name` and `base_folder` are those of load_text().
load_result load_tree(const document& tree, const std::string& name, const std::filesystem::path& base_folder,
                      const load_options& options);

}  // namespace troupe::config
