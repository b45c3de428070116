// Prepares a run's folder with text files for the user: the effective configuration, and what was chosen where the
// configuration leaves a choice (memory tiers, the pipeline's schedule).
#pragma once

#include <functional>

#include "actors/session/session.hpp"
#include "config/load.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Creates the run's folder, which `claim` locks for this process before anything is written, and writes the effective
/// configuration and the choices of the session into it. `open` creates the run's other files. A run that cannot start
/// leaves no folder that did not exist before.
core::result<void> prepare_output(const config::loaded& c, const actors::session& s,
                                  const std::function<core::result<void>()>& claim,
                                  const std::function<core::result<void>()>& open);

}  // namespace troupe::apps
