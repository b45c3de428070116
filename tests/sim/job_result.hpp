// What became of a job that was played: on one machine or several.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

struct job_result {
  std::optional<int32_t> code;  ///< the job's; none: it did not end in time
  std::string wrong;            ///< the first violation; empty: none
  std::string said;             ///< by the supervision
  std::string cause;            ///< why who led has left; empty: in good order
  std::vector<bool> struck;     ///< [what the scenario lets happen]
  uint64_t terms = 0, steps_done = 0, steps_again = 0, messages = 0;
  double seconds = 0;  ///< virtual
};

/// What is wrong with it; empty: nothing. `steps`: that it should do; `is_named`: an end with an error is one that the
/// documents promise, and has its name.
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
