// Owns the compression state of a run at one time, for callers that make the compression permanent or show it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "checkpoint/native/mask_record.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::actors {

struct compression_state {  ///< which modules of a session are compressed, and how, between two steps
  std::shared_ptr<const config::job_config> config;
  uint64_t updates = 0;  ///< updates applied so far; the start of each technique is counted in them
  /// Masks of all modules that are pruned now or later, in the form of a checkpoint; learned masks are left out,
  /// because the scores among the parameters determine them.
  std::vector<checkpoint::mask_record> masks;
};

}  // namespace troupe::actors
