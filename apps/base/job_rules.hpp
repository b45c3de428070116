// Checks the rules of a job's file that config/ cannot check: those of models, and sizes that no machine can hold.
// Shared by `train` and `config check`, without Torch.
#pragma once

#include <vector>

#include "config/load.hpp"

namespace troupe::apps {

/// The purpose for which a job is loaded; decides which memory limit applies.
enum class intent : uint8_t {
  run,  ///< the job runs here and now: batches and states beyond the free memory are refused
  /// The job is only checked: batches beyond this machine's memory cause a warning, or an error if no machine can hold
  /// them.
  look,
  /// as `look`, and refuses what a run would refuse before it plans anything, or because of a budget of memory
  check,
  plan,   ///< the job is planned for any machine: the plan shows the memory that it needs
};

/// Returns all problems of a job's model, and of its batches on this machine.
std::vector<config::key_problem> job_problems(const config::job_config& job, intent why);

}  // namespace troupe::apps
