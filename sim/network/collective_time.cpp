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
constexpr double probe_bytes = 1024.0 * 1024 * 1024;

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

/// Returns the time of the phases; nullopt as soon as it is above `limit_s`.
std::optional<collective_time> time_of_phases(const std::vector<collective_phase>& phases, network_routes& routes,
                                              double limit_s) {
  collective_time out;
  out.link_bytes.assign(routes.of().links.size(), 0);
  for (const auto& p : phases) {
    const auto times = simulate_transfers(routes, p.transfers);
    double sent_s = 0, latency_s = 0;
    for (size_t i = 0; i < p.transfers.size(); ++i) {
      sent_s = std::max(sent_s, times.sent_s[i]);
      latency_s = std::max(latency_s, times.latency_s[i]);
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
  std::optional<collective_time> best;
  for (const auto how : all_algorithms) {
    if (only && how != *only) continue;
    for (const uint32_t chunks : tried_chunks) {
      const bool has_chunks = what == collective_kind::broadcast && how == collective_algorithm::ring;
      if (chunks > 1 && !has_chunks) break;
      const auto phases = phases_of(what, how, bytes, groups, routes.of(), chunks);
      if (!phases) break;
      auto found = time_of_phases(*phases, routes, best ? best->seconds : std::numeric_limits<double>::infinity());
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

core::result<fabric::linear_link> link_of(std::span<const device_group> groups, network_routes& routes) {
  TROUPE_ASSIGN(const auto empty, time_of(collective_kind::all_gather, 0, groups, routes));
  TROUPE_ASSIGN(const auto full, time_of(collective_kind::all_gather, probe_bytes, groups, routes));
  const auto members = static_cast<double>(groups.front().size());
  if (members < 2) return core::refused("a link between members: wanted groups of at least two, got one");
  return fabric::linear_link{
      .latency_us = empty.seconds * 1e6,
      .bytes_per_second = probe_bytes * (members - 1) / members / (full.seconds - empty.seconds)};
}

}  // namespace troupe::sim
