// Defines the progress of opening a session, which a hook of the host program receives.
#pragma once

#include <functional>
#include <string>

namespace troupe::actors {

/// The current phase of an opening session.
struct opening_progress {
  std::string phase;  ///< phase of the opening, such as "writing and proving the plans"
  double share = -1;  ///< share of the phase that is done, from 0 to 1; negative: not known
};

/// Function of the host program that is called while a session opens; it returns false to end the opening.
using opening_hook = std::function<bool(const opening_progress&)>;

}  // namespace troupe::actors
