// A run's folder, with what people read in it: the configuration as it acts, choices that were made for it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "actors/session/session.hpp"
#include "config/load.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Makes the run's folder, which `claim` takes for this process before anything is written there; `open` makes what else
/// is. What could not be started leaves no folder behind that was not there before.
core::result<void> prepare_output(const config::loaded& c, const actors::session& s, const std::string& degrees,
                                  const std::function<core::result<void>()>& claim,
                                  const std::function<core::result<void>()>& open);

}  // namespace troupe::apps
