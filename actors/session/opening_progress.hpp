// What a host hears of a session that is being opened.
#pragma once

#include <functional>
#include <string>

namespace troupe::actors {

/// What an opening session does.
struct opening_progress {
  std::string phase;  ///< "writing and proving the plans"
  double share = -1;  ///< of it that is done, from 0 to 1; negative: not known
};

/// False ends the opening.
using opening_hook = std::function<bool(const opening_progress&)>;

}  // namespace troupe::actors
