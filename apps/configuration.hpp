// Loads a configuration as every subcommand does: warnings and errors to stderr, one a line.
#pragma once

#include <optional>

#include "apps/train.hpp"
#include "config/load.hpp"

namespace troupe::apps {

/// None when the file was refused; everything has been said by then.
std::optional<config::loaded> load_configuration(const common_arguments& a, std::optional<uint64_t> steps,
                                                 config::reading read_as = config::reading::job);

}  // namespace troupe::apps
