// Derives findings from the facts about the hosts of a job: which host differs from the others, and why. Pure.
#pragma once

#include <vector>

#include "apps/machine/cluster_facts.hpp"
#include "apps/machine/findings.hpp"

namespace troupe::apps {

/// Returns the findings. If hosts should be equal, the value of most hosts is right; in a tie, the value found first in
/// the order of hosts. `missing`: the job does not run on the host, or computes other bits there; `poor`: it runs, at a
/// cost. The topic of a finding contains the host's name, as in "version of c".
std::vector<finding> examine(const examined_cluster& all);

}  // namespace troupe::apps
