// The manual's pages: one of every command, from the tree of commands, and one of the keys, from their table.
#pragma once

#include <filesystem>

#include "core/error.hpp"

namespace CLI {
class App;
}

namespace troupe::apps {

/// Writes man1/troupe*.1 and man5/troupe.5 below a folder, which is made where it is missing.
core::result<void> write_manual(const CLI::App& program, const std::filesystem::path& folder);

}  // namespace troupe::apps
