// The numbers of micro-batches that steps of a job may have, where they are not all equal: a batch that grows
// (`data.rampup_batch_size`), and a host program that decides (`managed_gradient_accumulation: false`). Owns the
// numbers and what cannot be combined with them; pure functions of a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::config {

struct job_config;

/// True if a step may have fewer micro-batches than gradient_accumulation_steps.
bool has_other_counts(const job_config& config);

/// Returns numbers of micro-batches below gradient_accumulation_steps for which a run takes memory when it begins,
/// ascending: those of a batch that grows, and the powers of two if a host program decides. Requires that
/// find_count_problem() has found nothing.
std::vector<uint32_t> other_step_counts(const job_config& config);

struct count_problem {    ///< why the steps of a job cannot have other numbers of micro-batches
  std::string key, text;  ///< name of a key, and a sentence about its value
};

/// Returns the first problem of a job whose batch sizes are known; nullopt if there is none.
std::optional<count_problem> find_count_problem(const job_config& config);

}  // namespace troupe::config
