// Derives findings from the facts about the hosts of a job: which host differs from the others, and why. Pure.
#pragma once

#include <vector>

#include "apps/machine/cluster_facts.hpp"
#include "apps/machine/findings.hpp"

namespace troupe::apps {

/// Returns the findings. If hosts should be equal, the value of most hosts is right; in a tie, the value found first in
/// the order of hosts. `missing`: the job does not run there, or gives other bits; `poor`: it runs, at a cost. A host's
/// name is the second part of the topic: "version of c".
std::vector<finding> examine(const examined_cluster& all);

}  // namespace troupe::apps
