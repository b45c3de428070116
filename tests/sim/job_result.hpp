// Holds the result of a simulated training job, on one machine or on several.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

struct job_result {
  std::optional<int32_t> code;  ///< exit code of the job, or nothing if it did not end in time
  std::string wrong;            ///< first violation of an invariant, or empty if there was none
  std::string said;             ///< log lines of the simulated supervisor
  std::string cause;            ///< error with which the leading process ended, or empty if it ended without one
  std::vector<bool> struck;     ///< [fault of the scenario]; true: the fault took effect during the run
  uint64_t terms = 0, steps_done = 0, steps_again = 0, messages = 0;
  double seconds = 0;  ///< duration of the job in virtual seconds
};

/// Returns an error text if the job violated an invariant or ended wrongly, or an empty text. `steps` is the number of
/// steps of the job. `is_named` is true if the job ended with an error that the documentation allows and that names its
/// cause.
inline std::string fault_of(const job_result& r, uint64_t steps, bool is_named) {
  if (!r.wrong.empty()) return r.wrong + "\n" + r.said;
  if (!r.code) return fmt::format("it does not end; {} steps, {}", r.steps_done, r.said);
  if (*r.code == 0 && r.steps_done != steps)
    return fmt::format("it ended well after {} of {} steps", r.steps_done, steps);
  if (*r.code > 1 || (*r.code == 1 && !is_named))
    return fmt::format("it ended with {}: {}{}", *r.code, r.said, r.cause);
  return {};
}

}  // namespace troupe::actors
