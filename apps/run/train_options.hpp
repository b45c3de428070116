// The options of `troupe train`, for both programs: the one that a user starts has to know whether it starts others.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "apps/run/train.hpp"

namespace troupe::apps {

void add_train_options(CLI::App& command, train_arguments& t);

/// Of `troupe train ...`; nothing for another command and for arguments that are wrong, of which nothing is said.
std::optional<train_arguments> read_train_arguments(int argc, char** argv);

}  // namespace troupe::apps
