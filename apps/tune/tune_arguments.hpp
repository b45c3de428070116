// The arguments of `troupe tune`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/base/configuration.hpp"
#include "apps/base/output_form.hpp"

namespace troupe::apps {

/// Largest number of trials beside the file's own setting, unless all settings are tried.
inline constexpr uint64_t tune_trials_max = 256;
/// Least and largest number of steps of a trial; the first two are not measured.
inline constexpr uint64_t tune_steps_min = 3, tune_steps_max = 100'000;

struct tune_arguments : common_arguments {
  uint64_t memory_bytes = 0;      ///< limit of the memory of all ranks; 0: the machine's memory
  uint64_t trials = 4;            ///< trials beside the file's own setting
  uint64_t steps = 6;             ///< steps of a trial
  bool all = false;               ///< true: every setting that fits is tried
  std::vector<std::string> over;  ///< further keys and their values, as KEY=VALUES
  double patience_s = 0;          ///< seconds without a step after which a trial hangs; 0: patience_of()
  std::string out;                ///< file for the YAML of the fastest setting; empty: none
  output_form form = output_form::text;
};

}  // namespace troupe::apps
