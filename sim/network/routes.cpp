#include "sim/network/routes.hpp"

#include <algorithm>
#include <limits>

namespace troupe::sim {
namespace {

/// Number of distances that are kept at most: 256 MiB.
constexpr size_t most_kept = size_t{64} << 20;
constexpr uint32_t unreached = std::numeric_limits<uint32_t>::max();

}  // namespace

network_routes::network_routes(const network& of)
    : of_(&of),
      distances_(of.devices()),
      amount_(of.vertices(), 0),
      late_s_(of.vertices(), 0),
      used_(of.capacities.size(), 0) {
  for (const uint32_t i : of.out_links) out_.push_back({of.links[i].to, of.links[i].cost});
  for (const uint32_t i : of.in_links) in_.push_back({of.links[i].from, of.links[i].cost});
}

const std::vector<uint32_t>& network_routes::distances_to(uint32_t device) {
  auto& out = distances_[device];
  if (!out.empty()) return out;
  if (num_kept_ + of_->vertices() > most_kept) {
    for (auto& known : distances_) std::vector<uint32_t>().swap(known);
    num_kept_ = 0;
  }
  num_kept_ += of_->vertices();
  out.assign(of_->vertices(), unreached);
  out[device] = 0;
  // Costs are small integers, so vertices wait in one list for each distance up to the largest cost ahead.
  std::vector<std::vector<uint32_t>> waiting(1, {device});
  for (uint32_t distance = 0; distance < waiting.size(); ++distance) {
    for (size_t i = 0; i < waiting[distance].size(); ++i) {
      const uint32_t v = waiting[distance][i];
      if (out[v] != distance) continue;
      for (uint32_t k = of_->in_begin[v]; k < of_->in_begin[v + size_t{1}]; ++k) {
        const auto [from, cost] = in_[k];
        const uint32_t further = distance + cost;
        if (further >= out[from]) continue;
        out[from] = further;
        if (waiting.size() <= further) waiting.resize(further + size_t{1});
        waiting[further].push_back(from);
      }
    }
  }
  return out;
}

double network_routes::append(uint32_t from, uint32_t to, std::vector<route_share>& out) {
  if (from == to) return 0;
  const auto& distance = distances_to(to);
  amount_[from] = 1;
  late_s_[from] = 0;
  open_.assign(1, {distance[from], from});
  const auto use = [&](uint32_t resource, double fraction) {
    if (used_[resource] == 0) touched_.push_back(resource);
    used_[resource] += fraction;
  };
  double latency_s = 0;
  while (!open_.empty()) {
    std::ranges::pop_heap(open_);
    const uint32_t v = open_.back().second;
    open_.pop_back();
    const double amount = amount_[v], late_s = late_s_[v];
    amount_[v] = 0;
    late_s_[v] = 0;
    if (v == to) {
      latency_s = late_s;
      continue;
    }
    ways_.clear();
    for (uint32_t k = of_->out_begin[v]; k < of_->out_begin[v + size_t{1}]; ++k) {
      const auto [next, cost] = out_[k];
      if (distance[next] != unreached && distance[next] + cost == distance[v]) ways_.push_back(of_->out_links[k]);
    }
    const double each = amount / static_cast<double>(ways_.size());
    for (const uint32_t i : ways_) {
      const network_link& l = of_->links[i];
      use(i, each);
      if (l.limit != network_link::no_limit) use(l.limit, each);
      if (amount_[l.to] == 0) {
        open_.emplace_back(distance[l.to], l.to);
        std::ranges::push_heap(open_);
      }
      amount_[l.to] += each;
      late_s_[l.to] = std::max(late_s_[l.to], late_s + l.latency_s);
    }
  }
  for (const uint32_t resource : touched_) {
    out.push_back({resource, used_[resource]});
    used_[resource] = 0;
  }
  touched_.clear();
  return latency_s;
}

}  // namespace troupe::sim
