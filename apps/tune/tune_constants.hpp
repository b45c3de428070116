// The constants of this machine by which `troupe tune` predicts: those that `troupe calibrate` has kept, or those of a
// calibration that is made first. Owns the reading of that calibration's output.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "job/kept_costs.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::apps {

struct tune_constants {
  std::optional<job::kept_costs> kept;
  std::string note;  ///< what was measured for this command, and why it was not kept; empty: nothing was measured

  /// Returns the cost model of a job, and where its rates come from.
  [[nodiscard]] job::model_of_kept model_for(const config::job_config& job) const;
};

/// Returns the kept constants, or those that `program`, which is `troupe`, measures now. Errors: kept constants that
/// cannot be read; a calibration that fails; stopped if `stops` returns true meanwhile.
core::result<tune_constants> constants_of_machine(const std::filesystem::path& program,
                                                  const std::function<bool()>& stops);

/// The output of `troupe calibrate --json`.
struct calibration_output {
  job::kept_costs measured;
  std::string why_not_kept;  ///< empty: they were kept
};

/// Reads the output of `troupe calibrate --json`; `now_s` is when it ended, in seconds since 1970. Errors (mismatch):
/// another text.
core::result<calibration_output> read_calibration(std::string_view json, double now_s);

}  // namespace troupe::apps
