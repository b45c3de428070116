// The options of `troupe train`, for both programs: the one that a user starts has to know whether it starts others.
#pragma once

#include <CLI/CLI.hpp>

#include "apps/run/train.hpp"

namespace troupe::apps {

void add_train_options(CLI::App& command, train_arguments& t);

}  // namespace troupe::apps
