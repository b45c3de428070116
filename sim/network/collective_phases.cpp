#include "sim/network/collective_phases.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace troupe::sim {
namespace {

using groups = std::span<const device_group>;
using phases = std::vector<collective_phase>;

/// Returns the phase in which each member i of each group sends `bytes` to the member `to(i)`, unless that is its own
/// number.
collective_phase phase_of(groups all, double bytes, const auto& to, double repeats = 1) {
  collective_phase out;
  out.repeats = out.sent = repeats;
  for (const auto& g : all)
    for (size_t i = 0; i < g.size(); ++i)
      if (const size_t other = to(i); other != i)
        out.transfers.push_back({.from = g[i], .to = g[other], .bytes = bytes});
  return out;
}

void append(phases& out, phases more) { std::ranges::move(more, std::back_inserter(out)); }

phases reversed(phases all) {
  std::ranges::reverse(all);
  for (auto& p : all)
    for (auto& t : p.transfers) std::swap(t.from, t.to);
  return all;
}

/// Returns phases that scatter, as often again to gather.
phases twice(phases all) {
  for (auto& p : all) {
    p.repeats *= 2;
    p.sent *= 2;
  }
  return all;
}

/// Returns the phases in which each member passes on, n - 1 times, the part that it has last received.
phases ring(groups all, double bytes) {
  const size_t n = all.front().size();
  return {phase_of(
      all, bytes / double(n), [&](size_t i) { return (i + 1) % n; }, double(n - 1))};
}

phases ring_broadcast(groups all, double bytes, uint32_t chunks) {
  const size_t n = all.front().size();
  auto chain = phase_of(all, bytes / chunks, [&](size_t i) { return i + 1 < n ? i + 1 : i; });
  chain.repeats = double(n) - 2 + chunks;
  chain.sent = chunks;
  return {std::move(chain)};
}

/// Returns the phases of a binomial tree from member 0: the number of members that have the vector doubles.
phases tree_broadcast(groups all, double bytes) {
  phases out;
  const size_t n = all.front().size();
  size_t most = 1;
  while (most < n) most *= 2;
  for (size_t step = most / 2; step >= 1; step /= 2)
    out.push_back(phase_of(all, bytes, [&](size_t i) { return i % (2 * step) == 0 && i + step < n ? i + step : i; }));
  return out;
}

/// Returns the phases of Bruck's all-gather: each member sends all that it has, or what is missing, to a member whose
/// distance doubles.
phases dissemination(groups all, double bytes) {
  phases out;
  const size_t n = all.front().size();
  for (size_t step = 1; step < n; step *= 2)
    out.push_back(phase_of(all, bytes / double(n) * double(std::min(step, n - step)),
                           [&](size_t i) { return (i + n - step) % n; }));
  return out;
}

phases direct(groups all, double bytes) {
  phases out;
  const size_t n = all.front().size();
  for (size_t step = 1; step < n; ++step)
    out.push_back(phase_of(all, bytes / double(n), [&](size_t i) { return (i + step) % n; }));
  return out;
}

/// Groups cut at the borders of nodes.
struct levels {
  std::vector<device_group> inside;   ///< members of one group in one node
  std::vector<device_group> between;  ///< members of one group at the same place of all its nodes
};

/// Returns nothing unless all groups have equally many members, at least two, on each of their nodes, at least two.
std::optional<levels> levels_of(groups all, const network& on) {
  levels out;
  for (const auto& g : all) {
    std::vector<device_group> here;  // members by node, nodes in the order of their first members
    std::map<uint32_t, size_t> place_of;
    for (const uint32_t d : g) {
      const auto [at, is_new] = place_of.emplace(on.node_of_device[d], here.size());
      if (is_new) here.emplace_back();
      here[at->second].push_back(d);
    }
    const size_t each = here.front().size();
    if (here.size() < 2 || each < 2) return std::nullopt;
    if (!out.inside.empty() && out.inside.front().size() != each) return std::nullopt;
    for (const auto& members : here)
      if (members.size() != each) return std::nullopt;
    for (size_t i = 0; i < each; ++i) {
      auto& peers = out.between.emplace_back();
      for (const auto& members : here) peers.push_back(members[i]);
    }
    std::ranges::move(here, std::back_inserter(out.inside));
  }
  return out;
}

/// Returns the phases of two levels; `bytes` are those of the whole collective.
std::optional<phases> two_levels(collective_kind what, double bytes, groups all, const network& on) {
  const auto l = levels_of(all, on);
  if (!l) return std::nullopt;
  const double near = double(l->inside.front().size());
  phases out;
  switch (what) {
    case collective_kind::all_reduce:  // between nodes, each member reduces the part that it has reduced in its node
      append(out, twice(ring(l->inside, bytes)));
      append(out, twice(ring(l->between, bytes / near)));
      return out;
    case collective_kind::reduce_scatter:
      append(out, ring(l->inside, bytes));
      append(out, ring(l->between, bytes / near));
      return out;
    case collective_kind::all_gather:
      append(out, ring(l->between, bytes / near));
      append(out, ring(l->inside, bytes));
      return out;
    case collective_kind::all_to_all:  // a member first receives all that its node sends to its place of other nodes
      append(out, direct(l->inside, bytes));
      append(out, direct(l->between, bytes));
      return out;
    case collective_kind::broadcast: {
      std::vector<device_group> roots;  // of each group: the members at the root's place
      for (size_t i = 0; i < l->between.size(); i += l->inside.front().size()) roots.push_back(l->between[i]);
      append(out, tree_broadcast(roots, bytes));
      append(out, tree_broadcast(l->inside, bytes));
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(collective_kind k) {
  constexpr std::string_view names[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"};
  return names[static_cast<size_t>(k)];
}

std::string_view name_of(collective_algorithm a) {
  constexpr std::string_view names[] = {"ring", "tree", "two_levels", "pairs"};
  return names[static_cast<size_t>(a)];
}

std::optional<std::vector<collective_phase>> phases_of(collective_kind what, collective_algorithm how, double bytes,
                                                       std::span<const device_group> groups, const network& on,
                                                       uint32_t chunks) {
  using enum collective_kind;
  if (groups.empty() || groups.front().size() < 2) return phases{};
  phases out;
  switch (how) {
    case collective_algorithm::ring:
      if (what == all_to_all) return std::nullopt;
      if (what == broadcast) return ring_broadcast(groups, bytes, chunks);
      out = ring(groups, bytes);
      return what == all_reduce ? twice(std::move(out)) : out;
    case collective_algorithm::tree:
      if (what != all_reduce && what != broadcast) return std::nullopt;
      if (what == all_reduce) out = reversed(tree_broadcast(groups, bytes));
      append(out, tree_broadcast(groups, bytes));
      return out;
    case collective_algorithm::two_levels:
      return two_levels(what, bytes, groups, on);
    case collective_algorithm::pairs:
      if (what == broadcast) return std::nullopt;
      if (what == all_to_all) return direct(groups, bytes);
      if (what != all_gather) out = reversed(dissemination(groups, bytes));
      if (what != reduce_scatter) append(out, dissemination(groups, bytes));
      return out;
  }
  return std::nullopt;
}

}  // namespace troupe::sim
