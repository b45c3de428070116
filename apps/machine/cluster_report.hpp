// What `troupe doctor --cluster` prints. Pure.
#pragma once

#include <string>
#include <vector>

#include "apps/machine/cluster_facts.hpp"
#include "apps/machine/findings.hpp"

namespace troupe::apps {

/// Hosts of which a table of all pairs is drawn; of more, a line for each host.
inline constexpr size_t pair_table_hosts_max = 8;

/// A row for each host, a table of pairs, a line for each finding, and what it all comes to.
std::string cluster_text(const examined_cluster& all, const std::vector<finding>& found);
/// {"hosts": [{...}], "pairs": [{"from", "to", "bytes_per_s", "delay_s"}], "findings": [...], "fit": bool}
std::string cluster_json(const examined_cluster& all, const std::vector<finding>& found);
/// Nothing is missing.
bool fits(const std::vector<finding>& found);

}  // namespace troupe::apps
