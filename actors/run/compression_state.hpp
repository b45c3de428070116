// Defines the state of compression of a run between two steps, for callers that make the compression permanent or show
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/source/mask_record.hpp"

namespace troupe::config {
struct job_config;
}

namespace troupe::actors {

struct compression_state {  ///< which modules of a session are compressed, and how, between two steps
  std::shared_ptr<const config::job_config> config;
  uint64_t updates = 0;  ///< updates applied so far, in which the start of each technique is counted
  /// Masks of all modules that are pruned now or later, in the form in which checkpoints store them. Learned masks are
  /// left out, because they follow from scores, which are parameters.
  std::vector<formats::mask_record> masks;
};

}  // namespace troupe::actors
