#include "sim/network/collective_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>

namespace troupe::sim {
namespace {

/// Numbers of parts that are tried for a broadcast by ring.
constexpr uint32_t tried_chunks[] = {1, 4, 16, 64, 256, 1024};

core::result<void> check_groups(double bytes, std::span<const device_group> groups, const network& on) {
  const auto wrong = [](std::string what) { return core::refused("a collective: " + std::move(what)); };
  if (!(std::isfinite(bytes) && bytes >= 0)) return wrong(fmt::format("wanted bytes of at least 0, got {}", bytes));
  if (groups.empty() || groups.front().empty()) return wrong("wanted at least one group of devices, got none");
  std::set<uint32_t> seen;
  for (const auto& g : groups) {
    if (g.size() != groups.front().size())
      return wrong(fmt::format("wanted groups of one size, got {} and {} devices", groups.front().size(), g.size()));
    for (const uint32_t d : g) {
      if (d >= on.devices()) return wrong(fmt::format("wanted one of {} devices, got device {}", on.devices(), d));
      if (!seen.insert(d).second)
        return wrong(fmt::format("wanted each device in one group, got {} twice", on.vertex_names[d]));
    }
  }
  return {};
}

/// Returns the time of the phases; nullopt as soon as it is above `limit_s`. `group_of`: [device]: number of its group.
std::optional<collective_time> time_of_phases(const std::vector<collective_phase>& phases,
                                              const std::vector<uint32_t>& group_of, size_t num_groups,
                                              network_routes& routes, double limit_s) {
  collective_time out;
  out.group_seconds.assign(num_groups, 0);
  out.link_bytes.assign(routes.of().links.size(), 0);
  std::vector<double> group_sent_s(num_groups), group_latency_s(num_groups);
  for (const auto& p : phases) {
    const auto times = simulate_transfers(routes, p.transfers);
    double sent_s = 0, latency_s = 0;
    for (size_t i = 0; i < p.transfers.size(); ++i) {
      sent_s = std::max(sent_s, times.sent_s[i]);
      latency_s = std::max(latency_s, times.latency_s[i]);
      const uint32_t g = group_of[p.transfers[i].from];
      group_sent_s[g] = std::max(group_sent_s[g], times.sent_s[i]);
      group_latency_s[g] = std::max(group_latency_s[g], times.latency_s[i]);
    }
    for (size_t g = 0; g < num_groups; ++g) {
      out.group_seconds[g] += p.repeats * (group_sent_s[g] + group_latency_s[g]);
      group_sent_s[g] = group_latency_s[g] = 0;
    }
    out.seconds += p.repeats * (sent_s + latency_s);
    if (out.seconds > limit_s) return std::nullopt;
    for (size_t i = 0; i < out.link_bytes.size(); ++i) out.link_bytes[i] += p.sent * times.link_bytes[i];
  }
  return out;
}

}  // namespace

core::result<collective_time> time_of(collective_kind what, double bytes, std::span<const device_group> groups,
                                      network_routes& routes, std::optional<collective_algorithm> only) {
  TROUPE_TRY(check_groups(bytes, groups, routes.of()));
  std::vector<uint32_t> group_of(routes.of().devices());
  for (uint32_t g = 0; g < groups.size(); ++g)
    for (const uint32_t d : groups[g]) group_of[d] = g;
  std::optional<collective_time> best;
  for (const auto how : all_algorithms) {
    if (only && how != *only) continue;
    for (const uint32_t chunks : tried_chunks) {
      const bool has_chunks = what == collective_kind::broadcast && how == collective_algorithm::ring;
      if (chunks > 1 && !has_chunks) break;
      const auto phases = phases_of(what, how, bytes, groups, routes.of(), chunks);
      if (!phases) break;
      auto found = time_of_phases(*phases, group_of, groups.size(), routes,
                                  best ? best->seconds : std::numeric_limits<double>::infinity());
      if (!found || (best && found->seconds == best->seconds)) continue;
      found->how = how;
      found->chunks = chunks;
      best = std::move(found);
    }
  }
  if (!best)
    return core::refused(fmt::format("{} by {}: the algorithm has no such collective for these groups", name_of(what),
                                     only ? name_of(*only) : "any algorithm"));
  return *std::move(best);
}

}  // namespace troupe::sim
