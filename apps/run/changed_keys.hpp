// Compares the configuration of a run that is over with that of the run which finds it in its folder: two jobs with
// files of the same name share one output folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/load.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Returns the differences of keys that decide what is trained, such as `optimizer.params.lr is 0.002, was 0.001`,
/// between the effective YAML `was` of an earlier run and `now`. Left out are keys that only one of both states, and
/// the length of a learning rate's curve that is the run's.
std::vector<std::string> changed_keys(const std::string& was, const config::loaded& now);

/// Refuses a run without steps left, which has resumed `step` steps from the checkpoint `from` in its own folder, if
/// that checkpoint is of a run with other settings (bad_input); `was` is the configuration that it holds.
core::result<void> check_same_job(const std::string& was, const std::filesystem::path& from, uint64_t step,
                                  const config::loaded& now);

}  // namespace troupe::apps
