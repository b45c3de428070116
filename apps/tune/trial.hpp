// Runs a short training as a child process, and measures its step and its memory. Owns when a trial counts as failed:
// its exit code, its memory, no step for a long time. Leaves processes to child_process.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "config/sections/job_config.hpp"

namespace troupe::apps {

/// Least seconds without a step after which a trial counts as hanging, and the multiple of its predicted duration, if
/// that is longer.
inline constexpr double trial_patience_s = 60, trial_patience_factor = 10;

/// Returns the seconds without a step after which a trial of `steps` steps counts as hanging.
double patience_of(uint64_t steps, double predicted_step_s);

struct trial_limits {
  uint64_t memory_bytes = 0;  ///< of all processes of the trial; 0: no limit
  double patience_s = trial_patience_s;
};

struct trial_result {
  double step_s = 0;        ///< median of the measured steps; 0: none was measured
  uint64_t peak_bytes = 0;  ///< largest memory of the trial's processes, sampled while it ran
  double seconds = 0;       ///< duration of the trial
  std::string failure;      ///< why the trial gave no step time; empty: it gave one
  bool stopped = false;     ///< true: `stops` ended the trial
};

/// Runs `command`, which prints events as `troupe train --json` does, until it ends, exceeds a limit, or `stops`
/// returns true. Ends all its processes.
trial_result run_trial(const std::vector<std::string>& command, const trial_limits& limits,
                       const std::function<bool()>& stops);

/// Returns the overrides with which a run of the job writes into `output` alone, takes no checkpoint, does not resume,
/// and tells no other program of itself.
std::vector<std::string> quiet_overrides(const config::job_config& job, const std::filesystem::path& output);

}  // namespace troupe::apps
