// Finds out whether a run has trained nothing, because each of its steps was skipped. Owns the sentence.
#pragma once

#include <cstdint>
#include <optional>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Returns the error (numeric) of a run whose `trained` steps were all `skipped`; nothing for another run. A run with a
/// dynamic loss scale that is stopped may still have been looking for its scale.
std::optional<core::error> nothing_trained(const config::job_config& config, uint64_t trained, uint64_t skipped,
                                           bool is_stopped);

}  // namespace troupe::apps
