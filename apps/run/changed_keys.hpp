// Compares the configuration of an earlier run with the configuration of a run that finds the earlier run's checkpoints
// in its output folder. The two may be different jobs, because jobs with files of the same name share one output
// folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/load.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Returns the differences, such as `optimizer.params.lr is 0.002, was 0.001`, between `was`, the effective YAML of an
/// earlier run, and `now`, in keys that decide what is trained. Omitted are keys that only one of the two contains, and
/// the length of a learning-rate curve that equals the number of steps in both.
std::vector<std::string> changed_keys(const std::string& was, const config::loaded& now);

/// Returns the first differences, and how many more there are, as a clause for the user.
std::string shown_changes(const std::vector<std::string>& changed);

/// Refuses (bad_input) a run that has no steps left, because it has resumed at step `step` from the checkpoint `from`
/// in its own folder, if that checkpoint was written by a run with other settings. `was` is the configuration that the
/// checkpoint contains.
core::result<void> check_same_job(const std::string& was, const std::filesystem::path& from, uint64_t step,
                                  const config::loaded& now);

}  // namespace troupe::apps
