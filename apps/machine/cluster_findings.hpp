// What the facts about the hosts of a job mean for it: which host is the odd one out, and why. Pure.
#pragma once

#include <vector>

#include "apps/machine/cluster_facts.hpp"
#include "apps/machine/findings.hpp"

namespace troupe::apps {

/// Where hosts should be equal, what most of them have is right; of as many, the first host's. `missing`: the job does
/// not run there, or gives other bits; `poor`: it runs, at a cost. A host's name is the topic's second part: "version
/// of c".
std::vector<finding> examine(const examined_cluster& all);

}  // namespace troupe::apps
