#include "sim/placed_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <utility>

#include "fabric/layout.hpp"
#include "job/step/collective_form.hpp"
#include "plan/layout/communicators.hpp"
#include "sim/network/collective_time.hpp"

namespace troupe::sim {
namespace {

constexpr double longest_s = 1e6;

/// A collective, as far as its time depends on it.
struct movement {
  fabric::operation op = fabric::operation::all_gather;
  uint32_t senders = 0;   ///< of a transfer: bit i is set if member i sends; of others 0
  uint64_t received = 0;  ///< bytes that the member which receives most receives
  auto operator<=>(const movement&) const = default;
};
/// Collectives and the numbers of times that they take place in a step of the counted kind.
using movements = std::map<movement, uint64_t>;

/// Returns the communicators of each rank, ascending.
std::vector<std::vector<uint32_t>> communicators_of_ranks(const plan::job_layout& layout) {
  std::vector<std::vector<uint32_t>> out(layout.options.ranks());
  for (uint32_t c = 0; c < layout.communicators.size(); ++c)
    for (const uint32_t r : layout.communicators[c].members) out[r].push_back(c);
  return out;
}

movement movement_of(const fabric::request& r, uint32_t size) {
  movement out{.op = r.op, .senders = 0, .received = fabric::received_bytes(r, size)};
  if (r.op == fabric::operation::send_receive)
    for (const auto& piece : r.pieces) out.senders |= 1U << piece.owner;
  return out;
}

/// Adds the collectives of one plan to those of the plan's communicators.
void add_movements(std::map<uint32_t, movements>& to, const plan::rank_plan& p, bool is_counted) {
  const auto pieces = job::pieces_of(p);
  for (const uint32_t id : p.lanes[static_cast<size_t>(plan::lane::fabric)]) {
    const auto& x = p.instructions[id];
    auto r = job::collective_form(p, x);
    r.pieces = pieces[x.communicator][x.sequence];
    const auto size = static_cast<uint32_t>(p.layout->communicators[x.communicator].members.size());
    to[x.communicator][movement_of(r, size)] += is_counted ? 1 : 0;
  }
}

/// Returns the collectives of each communicator: those of its first member.
std::vector<movements> movements_of(const std::vector<actors::shared_rank_plans>& plans, plan::plan_choice counted) {
  const auto& some = *std::ranges::find_if(plans, [](const auto& of_kind) { return !of_kind.empty(); });
  const plan::job_layout& layout = *some.front()->layout;
  const auto met = communicators_of_ranks(layout);
  std::vector<movements> out(layout.communicators.size());
  for (size_t which = 0; which < plans.size(); ++which) {
    if (plans[which].empty()) continue;
    std::map<const plan::rank_plan*, std::vector<uint32_t>> first_of;  // communicators by the plan of the first member
    for (uint32_t c = 0; c < out.size(); ++c)
      first_of[plans[which][layout.communicators[c].members.front()].get()].push_back(c);
    for (const auto& [p, communicators] : first_of) {
      std::map<uint32_t, movements> own;
      add_movements(own, *p, which == static_cast<size_t>(counted));
      for (const uint32_t c : communicators) {
        const auto& of_first = met[layout.communicators[c].members.front()];
        const auto place = static_cast<size_t>(std::ranges::find(of_first, c) - of_first.begin());
        // A plan that stands for its class names the communicators of its own rank.
        const auto found = own.find(met[p->rank][place]);
        if (found == own.end()) continue;
        for (const auto& [m, times] : found->second) out[c][m] += times;
      }
    }
  }
  return out;
}

/// Returns the time of a collective that all groups run at once.
core::result<collective_time> time_of_movement(const movement& m, const std::vector<device_group>& groups,
                                               network_routes& routes) {
  using enum fabric::operation;
  const auto members = static_cast<double>(groups.front().size());
  const auto received = static_cast<double>(m.received);
  // Each member receives the part of the vector that it does not have, for a sum twice.
  const double vector_bytes = received * members / (members - 1);
  switch (m.op) {
    case reduce_scatter:
      return time_of(collective_kind::reduce_scatter, vector_bytes, groups, routes);
    case all_reduce:
      return time_of(collective_kind::all_reduce, vector_bytes / 2, groups, routes);
    case all_to_all:
      return time_of(collective_kind::all_to_all, vector_bytes, groups, routes);
    case broadcast:
      return time_of(collective_kind::broadcast, received, groups, routes);
    case send_receive: {
      if (m.senders == 3) break;  // each receives what the other one has
      if (m.senders != 2) return time_of(collective_kind::broadcast, received, groups, routes);
      auto backward = groups;
      for (auto& pair : backward) std::ranges::reverse(pair);
      return time_of(collective_kind::broadcast, received, backward, routes);
    }
    case all_gather:
    case barrier:
      break;
  }
  return time_of(collective_kind::all_gather, vector_bytes, groups, routes);
}

}  // namespace

core::result<placed_times> times_on(const network& on, std::vector<uint32_t> devices,
                                    const std::vector<actors::shared_rank_plans>& plans, plan::plan_choice counted) {
  const plan::job_layout& layout = *plans[static_cast<size_t>(counted)].front()->layout;
  placed_times out;
  out.devices = std::move(devices);
  out.curves.resize(layout.communicators.size());
  out.link_bytes.assign(on.links.size(), 0);
  std::map<uint32_t, std::vector<uint32_t>> together;  // communicators by the one that represents them
  for (uint32_t c = 0; c < layout.communicators.size(); ++c)
    if (layout.communicators[c].members.size() > 1) together[plan::at_once(layout, c)].push_back(c);
  const auto all = movements_of(plans, counted);
  network_routes routes(on);
  for (const auto& [first, communicators] : together) {
    std::vector<device_group> groups;
    movements in_all;  // with the numbers of all groups together
    for (const uint32_t c : communicators) {
      auto& group = groups.emplace_back();
      for (const uint32_t r : layout.communicators[c].members) group.push_back(out.devices[r]);
      for (const auto& [m, times] : all[c]) {
        in_all[m] += times;
        in_all.try_emplace(movement{.op = m.op, .senders = m.senders, .received = 0}, 0);
      }
    }
    for (const auto& [m, times] : in_all) {
      TROUPE_ASSIGN(const auto found, time_of_movement(m, groups, routes));
      if (!(found.seconds <= longest_s))
        return core::refused(
            fmt::format("a network: wanted collectives of at most {:g} s, got {:g} s for one of \"{}\"", longest_s,
                        found.seconds, layout.communicators[first].name));
      // Groups whose sizes differ each carry their share.
      const double share = static_cast<double>(times) / static_cast<double>(groups.size());
      for (size_t i = 0; i < out.link_bytes.size(); ++i) out.link_bytes[i] += share * found.link_bytes[i];
      for (size_t g = 0; g < groups.size(); ++g)
        out.curves[communicators[g]][m.op].add(m.received,
                                               static_cast<int64_t>(std::llround(1e9 * found.group_seconds[g])));
    }
  }
  return out;
}

}  // namespace troupe::sim
