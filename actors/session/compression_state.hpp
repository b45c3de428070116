// What a run is compressed with at a time, for whoever makes it permanent or shows it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "checkpoint/native/mask_record.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::actors {

struct compression_state {  ///< of a session, between two steps
  std::shared_ptr<const config::job_config> config;
  uint64_t updates = 0;  ///< applied so far: by them techniques begin
  /// As checkpoints hold them: of all modules that are pruned now or later, but for masks that are learned, which the
  /// scores among the parameters say.
  std::vector<checkpoint::mask_record> masks;
};

}  // namespace troupe::actors
