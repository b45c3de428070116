// Owns the options of `troupe train`, for both programs: the one that a user starts must know whether it starts others.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "apps/run/train.hpp"

namespace troupe::apps {

void add_train_options(CLI::App& command, train_arguments& t);

/// Reads the arguments of `troupe train ...`. Returns nothing for another command and for wrong arguments, without an
/// error message.
std::optional<train_arguments> read_train_arguments(int argc, char** argv);

}  // namespace troupe::apps
