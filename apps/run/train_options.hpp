// Owns the options of `troupe train`. Both `troupe`, which starts the processes of a job, and `troupe-train` read them.
#pragma once

#include <CLI/CLI.hpp>

#include "apps/run/train.hpp"
#include "core/error.hpp"

namespace troupe::apps {

void add_train_options(CLI::App& command, train_arguments& t);

/// Reads the arguments of `troupe train ...` and prints nothing. Errors (bad_input): another command, wrong arguments,
/// a request for help.
core::result<train_arguments> read_train_arguments(int argc, char** argv);

}  // namespace troupe::apps
