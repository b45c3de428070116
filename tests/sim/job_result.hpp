// Holds the result of a simulated job, on one machine or on several.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

struct job_result {
  std::optional<int32_t> code;  ///< exit code of the job; none: the job did not end in time
  std::string wrong;            ///< first violation of an invariant; empty: none
  std::string said;             ///< lines that the supervision printed
  std::string cause;            ///< why the leader left; empty: in good order
  std::vector<bool> struck;     ///< [fault of the scenario]; true: it took effect
  uint64_t terms = 0, steps_done = 0, steps_again = 0, messages = 0;
  double seconds = 0;  ///< virtual seconds
};

/// Returns what is wrong with the result; empty: nothing. `steps` is the number of steps of the job. `is_named`: the
/// documentation promises an end with this error, and the error has its name.
inline std::string fault_of(const job_result& r, uint64_t steps, bool is_named) {
  if (!r.wrong.empty()) return r.wrong + "\n" + r.said;
  if (!r.code) return "it does not end; " + std::to_string(r.steps_done) + " steps, " + r.said;
  if (*r.code == 0 && r.steps_done != steps)
    return "it ended well after " + std::to_string(r.steps_done) + " of " + std::to_string(steps) + " steps";
  if (*r.code > 1 || (*r.code == 1 && !is_named))
    return "it ended with " + std::to_string(*r.code) + ": " + r.said + r.cause;
  return {};
}

}  // namespace troupe::actors
