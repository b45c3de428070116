// What a job's file may not say and config/ cannot know: the rules of models, and sizes that no machine holds. One
// place for `train` and `config check`, without Torch.
#pragma once

#include <vector>

#include "config/load.hpp"

namespace troupe::apps {

/// What a job is loaded for, as far as this machine's memory goes.
enum class intent : uint8_t {
  run,   ///< here: batches beyond the memory are refused
  look,  ///< perhaps to run elsewhere: they are warned about, and refused where no machine holds them
  plan,  ///< for any machine: the plan says what it needs
};

/// Everything that is wrong with the model, and with batches beside it, of a job on a machine of so much memory;
/// 0: unknown.
std::vector<config::key_problem> job_problems(const config::job_config& job, intent why, uint64_t memory_bytes);

}  // namespace troupe::apps
