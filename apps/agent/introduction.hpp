// What an agent and the first host of a job say to each other before anything else: which version each is.
#pragma once

#include <string>

namespace troupe::apps {

inline std::string agent_introduction() { return "troupe " TROUPE_VERSION; }

}  // namespace troupe::apps
