// What a job's file may not say and config/ cannot know: the rules of models, and sizes that no machine holds. One
// place for `train` and `config check`, without Torch.
#pragma once

#include <vector>

#include "config/load.hpp"

namespace troupe::apps {

/// What a job is loaded for, as far as this machine's memory goes.
enum class intent : uint8_t {
  run,   ///< here and now: batches beyond the memory that is free are refused, as states are
  look,  ///< perhaps later or elsewhere: those beyond all memory are warned about, and refused where no machine has it
  plan,  ///< for any machine: the plan says what it needs
};

/// Everything that is wrong with the model, and with batches beside it, of a job on this machine.
std::vector<config::key_problem> job_problems(const config::job_config& job, intent why);

}  // namespace troupe::apps
