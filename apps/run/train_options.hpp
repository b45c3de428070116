// Owns the options of `troupe train`. Both `troupe`, which starts the processes of a job, and `troupe-train` read them.
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
