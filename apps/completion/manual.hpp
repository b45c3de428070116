// Writes the manual's pages: one for each command, from the tree of commands, and one for the keys, from their table.
#pragma once

#include <filesystem>

#include "core/error.hpp"

namespace CLI {
class App;
}

namespace troupe::apps {

/// Writes man1/troupe*.1 and man5/troupe.5 below `folder`, which is created if it is missing.
core::result<void> write_manual(const CLI::App& program, const std::filesystem::path& folder);

}  // namespace troupe::apps
