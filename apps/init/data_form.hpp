// Finds out which form of samples a user's data have, so that `troupe init` writes the key that reads them.
#pragma once

#include <filesystem>

#include "core/sample_types.hpp"

namespace troupe::apps {

/// Returns the form of the samples of `path`, a file or a folder, by the columns of the first row of its first file:
/// the form text if there are no such columns, and for data that cannot be read, whose error check_data() returns.
core::sample_form form_of_data(const std::filesystem::path& path);

}  // namespace troupe::apps
