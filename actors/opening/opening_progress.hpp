// Progress of opening a session, as the host's hook receives it.
#pragma once

#include <functional>
#include <string>

namespace troupe::actors {

/// The current phase of an opening session.
struct opening_progress {
  std::string phase;  ///< phase of the opening, such as "writing and proving the plans"
  double share = -1;  ///< share of the phase that is done, from 0 to 1; negative: not known
};

/// Returns false to end the opening.
using opening_hook = std::function<bool(const opening_progress&)>;

}  // namespace troupe::actors
