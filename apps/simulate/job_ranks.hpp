// Owns --ranks of `troupe simulate`: a job's file as a job of another number of ranks, by its data degree.
#pragma once

#include <optional>

#include "apps/simulate/simulate_command.hpp"
#include "config/load.hpp"

namespace troupe::apps {

/// Returns the job of the arguments' file, with as many data ranks as its number of ranks needs if --ranks gives one.
/// `before` then receives the job as the file has it. Returns nothing if the job is refused; every problem has then
/// been printed, and the exit code is 2.
std::optional<config::loaded> load_with_ranks(const simulate_arguments& a, std::optional<config::job_config>& before);

}  // namespace troupe::apps
