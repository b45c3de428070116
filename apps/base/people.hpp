// Formats the processes of a job for users: each process's host, ranks and state. Leaves the roster to the supervisor
// (cluster/messages.hpp: roster).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "cluster/messages.hpp"

namespace troupe::apps {

/// Returns the process that has `rank`; null if none is known to have it.
inline const cluster::place_row* place_of_rank(const cluster::roster& all, uint32_t rank) {
  const auto at = std::ranges::find_if(all.places, [&](const auto& p) { return rank - p.first < p.count; });
  return at == all.places.end() ? nullptr : &*at;
}

/// Returns the name of a process as text: "process 1 on b"; "process 1" in a job on one machine.
inline std::string place_text(const cluster::place_row& p) {
  return fmt::format("process {}{}", p.place, p.host.empty() ? "" : " on " + p.host);
}

/// Returns the processes of a job as a JSON array: [{"process", "host", "pid", "state", "ranks": [first, count],
/// "losses"}].
inline nlohmann::ordered_json people_json(const cluster::roster& all) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& p : all.places) {
    nlohmann::ordered_json one = {{"process", p.place}};
    if (!p.host.empty()) one["host"] = p.host;
    one["pid"] = p.process_id;
    one["state"] = p.state;
    if (p.count > 0) one["ranks"] = {p.first, p.count};
    if (p.losses > 0) one["losses"] = p.losses;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace troupe::apps
