#include "sim/network/fair_sharing.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace troupe::sim {
namespace {

/// Events less than this fraction of the time apart are one.
constexpr double same_moment = 1e-12;

class transfer_simulation {
 public:
  transfer_simulation(network_routes& routes, std::span<const transfer> transfers)
      : transfers_(transfers),
        capacities_(routes.of().capacities),
        flows_(transfers.size()),
        ends_s_(transfers.size()),
        is_open_(transfers.size(), 0),
        users_(capacities_.size()),
        left_(capacities_.size(), 0),
        weight_(capacities_.size(), 0),
        num_open_(capacities_.size(), 0),
        is_seen_(capacities_.size(), false) {
    out_.sent_s.resize(transfers.size());
    out_.latency_s.resize(transfers.size());
    out_.link_bytes.assign(routes.of().links.size(), 0);
    std::vector<route_share> shares;
    for (uint32_t i = 0; i < transfers.size(); ++i) {
      shares.clear();
      flow& f = flows_[i];
      out_.latency_s[i] = routes.append(transfers[i].from, transfers[i].to, shares);
      f.left_bytes = transfers[i].bytes;
      f.first_use = static_cast<uint32_t>(uses_.size());
      for (const route_share& s : shares) {
        if (s.resource < out_.link_bytes.size()) out_.link_bytes[s.resource] += s.fraction * transfers[i].bytes;
        uses_.push_back({.resource = s.resource, .position = 0, .fraction = s.fraction});
      }
      f.end_use = static_cast<uint32_t>(uses_.size());
    }
  }

  transfer_times run() {
    std::vector<uint32_t> order(transfers_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](uint32_t i) { return transfers_[i].start_s; });
    size_t next = 0;
    while (next < order.size() || !active_.empty()) {
      double now = next < order.size() ? transfers_[order[next]].start_s : std::numeric_limits<double>::infinity();
      for (const uint32_t i : active_) now = std::min(now, ends_s_[i]);
      const double until = now * (1 + same_moment);
      for (size_t k = active_.size(); k-- > 0;)
        if (const uint32_t i = active_[k]; ends_s_[i] <= until) {
          active_[k] = active_.back();
          active_.pop_back();
          end(i);
        }
      for (; next < order.size() && transfers_[order[next]].start_s <= until; ++next) start(order[next]);
      if (!changed_.empty()) share(now);
    }
    return std::move(out_);
  }

 private:
  struct flow {
    uint32_t first_use = 0, end_use = 0;  ///< range of uses_
    double left_bytes = 0, rate = 0, since_s = 0;
  };
  struct use {  ///< a resource that a flow uses
    uint32_t resource = 0;
    uint32_t position = 0;  ///< index in users_[resource], while the flow is active
    double fraction = 1;
  };
  struct user {  ///< an active flow that uses a resource
    uint32_t flow = 0, use = 0;
    double fraction = 1;
  };

  void start(uint32_t i) {
    flow& f = flows_[i];
    const double at_s = transfers_[i].start_s;
    f.since_s = at_s;
    if (f.first_use == f.end_use || f.left_bytes == 0) {
      out_.sent_s[i] = at_s;
      return;
    }
    active_.push_back(i);
    for (uint32_t u = f.first_use; u < f.end_use; ++u) {
      auto& users = users_[uses_[u].resource];
      uses_[u].position = static_cast<uint32_t>(users.size());
      users.push_back({.flow = i, .use = u, .fraction = uses_[u].fraction});
      change(uses_[u].resource);
    }
  }

  void end(uint32_t i) {
    const flow& f = flows_[i];
    for (uint32_t u = f.first_use; u < f.end_use; ++u) {
      auto& users = users_[uses_[u].resource];
      users[uses_[u].position] = users.back();
      uses_[users.back().use].position = uses_[u].position;
      users.pop_back();
      change(uses_[u].resource);
    }
    out_.sent_s[i] = ends_s_[i];
  }

  void change(uint32_t resource) {
    if (is_seen_[resource]) return;
    is_seen_[resource] = true;
    changed_.push_back(resource);
  }

  /// Gives all flows new rates that share, directly or by way of others, a resource with a flow that started or ended:
  /// by progressive filling, the rates of all grow until a resource is full, whose flows then keep theirs.
  void share(double now) {
    // changed_ grows while it is walked, up to all resources that are connected with the first ones.
    for (size_t k = 0; k < changed_.size(); ++k) {
      const uint32_t resource = changed_[k];
      left_[resource] = capacities_[resource];
      weight_[resource] = 0;
      num_open_[resource] = static_cast<uint32_t>(users_[resource].size());
      for (const user& x : users_[resource]) {
        weight_[resource] += x.fraction;
        if (is_open_[x.flow] != 0) continue;
        is_open_[x.flow] = 1;
        for (uint32_t v = flows_[x.flow].first_use; v < flows_[x.flow].end_use; ++v) change(uses_[v].resource);
      }
    }
    for (const uint32_t resource : changed_) {
      is_seen_[resource] = false;
      if (num_open_[resource] > 0) full_.emplace(left_[resource] / weight_[resource], resource);
    }
    changed_.clear();
    double level = 0;
    while (!full_.empty()) {
      const auto [known, resource] = full_.top();
      full_.pop();
      if (num_open_[resource] == 0) continue;
      // The share of a resource can only have grown since it was computed.
      const double rate = std::max(level, left_[resource] / weight_[resource]);
      if (rate > known && !full_.empty() && rate > full_.top().first) {
        full_.emplace(rate, resource);
        continue;
      }
      level = rate;
      for (const user& x : users_[resource])
        if (is_open_[x.flow] != 0) settle(x.flow, rate, now);
    }
  }

  void settle(uint32_t i, double rate, double now) {
    flow& f = flows_[i];
    is_open_[i] = 0;
    for (uint32_t u = f.first_use; u < f.end_use; ++u) {
      const use& x = uses_[u];
      left_[x.resource] = std::max(0.0, left_[x.resource] - rate * x.fraction);
      weight_[x.resource] -= x.fraction;
      --num_open_[x.resource];
    }
    if (rate == f.rate) return;  // it ends when it would have ended
    f.left_bytes = std::max(0.0, f.left_bytes - f.rate * (now - f.since_s));
    f.since_s = now;
    f.rate = rate;
    ends_s_[i] = now + f.left_bytes / rate;
  }

  std::span<const transfer> transfers_;
  const std::vector<double>& capacities_;
  std::vector<flow> flows_;
  std::vector<double> ends_s_;    // [flow]: when it ends at its present rate
  std::vector<uint32_t> active_;  // flows that have started and not ended
  std::vector<uint8_t> is_open_;  // [flow]: waits for its new rate, while rates are computed
  std::vector<use> uses_;
  std::vector<std::vector<user>> users_;  // [resource]
  std::vector<double> left_, weight_;     // [resource]: capacity and sum of fractions of flows without a new rate
  std::vector<uint32_t> num_open_;        // [resource]: number of these flows
  std::vector<bool> is_seen_;             // [resource]: is in changed_
  std::vector<uint32_t> changed_;         // resources whose flows need new rates
  std::priority_queue<std::pair<double, uint32_t>, std::vector<std::pair<double, uint32_t>>, std::greater<>> full_;
  transfer_times out_;
};

}  // namespace

transfer_times simulate_transfers(network_routes& routes, std::span<const transfer> transfers) {
  return transfer_simulation(routes, transfers).run();
}

}  // namespace troupe::sim
