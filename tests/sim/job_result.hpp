// Judges the record of a simulated job of several processes: whether it kept its invariants and ended as it may.
#pragma once

#include <fmt/format.h>

#include <string>

#include "sim/job_run.hpp"

namespace troupe::sim {

/// Returns an error text if the job violated an invariant or ended wrongly, or an empty text. `is_named` is true if the
/// job ended with an error that the documentation allows and that names its cause.
inline std::string fault_of(const job_record& r, bool is_named) {
  if (!r.wrong.empty()) return r.wrong + "\n" + r.said;
  if (!r.code) return fmt::format("it does not end; {} steps, {}", r.steps_done, r.said);
  if (*r.code == 0 && r.steps_done != r.steps)
    return fmt::format("it ended well after {} of {} steps", r.steps_done, r.steps);
  if (*r.code > 1 || (*r.code == 1 && !is_named))
    return fmt::format("it ended with {}: {}{}", *r.code, r.said, r.cause);
  return {};
}

}  // namespace troupe::sim
