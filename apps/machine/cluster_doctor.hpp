// Examines the facts about the hosts of a job, and prints the results of `troupe doctor --cluster`. Pure.
#pragma once

#include <string>
#include <vector>

#include "apps/machine/cluster_facts.hpp"
#include "apps/machine/findings.hpp"

namespace troupe::apps {

/// Returns the findings. If hosts should be equal, the value of most hosts is right; in a tie, the value found first in
/// the order of hosts. `missing`: the job does not run on the host, or computes other bits there; `poor`: it runs, at a
/// cost. The topic of a finding contains the host's name, as in "version of c".
std::vector<finding> examine(const examined_cluster& all);

/// Largest number of hosts with a table of all pairs; with more hosts, each host has one line.
inline constexpr size_t pair_table_hosts_max = 8;

/// Returns a row for each host, a table of pairs, a line for each finding, and the conclusion.
std::string cluster_text(const examined_cluster& all, const std::vector<finding>& found);
/// Returns the report as JSON: {"hosts": [{...}], "pairs": [{"from", "to", "bytes_per_s", "delay_s"}], "findings":
/// [...], "fit": bool}.
std::string cluster_json(const examined_cluster& all, const std::vector<finding>& found);
/// True if no finding reports something that training needs as missing.
bool fits(const std::vector<finding>& found);

}  // namespace troupe::apps
