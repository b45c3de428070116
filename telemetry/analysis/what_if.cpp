#include "telemetry/analysis/what_if.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace troupe::telemetry {
namespace {

/// Two communicators do the same if the mean bytes of their collectives differ at most by this factor.
constexpr double same_bytes_factor = 2;

double median_of(std::vector<double> v) {
  if (v.empty()) return 0;
  std::ranges::sort(v);
  const size_t half = v.size() / 2;
  return v.size() % 2 == 1 ? v[half] : (v[half - 1] + v[half]) / 2;
}

int64_t scaled(int64_t ns, double factor) { return std::llround(double(ns) * factor); }

// Tries the changes of one step.
class trial {
 public:
  explicit trial(const step_graph& g) : g_(g), s_(g.step()) {}

  std::vector<tried_change> all() {
    equal_ranks();
    equal_stages();
    equal_links();
    free_collectives();
    free_work(change_sort::free_loading, work_sort::loading);
    free_work(change_sort::free_disk, work_sort::disk);
    free_work(change_sort::free_saving, work_sort::saving);
    free_work(change_sort::free_update, work_sort::update);
    free_work(change_sort::free_host, work_sort::host);
    no_gaps();
    std::ranges::stable_sort(out_, std::greater<>(), &tried_change::gain_ns);
    return std::move(out_);
  }

 private:
  // Replays the step with the times that `change` makes of the measured ones.
  void replay(change_sort sort, std::string subject, double ratio,
              const std::function<void(step_graph::times&)>& change) {
    auto times = g_.measured();
    change(times);
    const int64_t gain = g_.bounds().length_ns() - g_.replayed(times);
    if (gain > 0) out_.push_back({sort, std::move(subject), ratio, gain});
  }

  [[nodiscard]] bool computes(uint32_t span) const {
    return s_.spans[span].sort == work_sort::compute || s_.spans[span].sort == work_sort::update;
  }

  // Compares the ranks that run instructions of the same names.
  void equal_ranks() {
    std::map<uint32_t, std::map<uint32_t, double>> names;  // [name][rank]: time of all instructions of this name
    for (uint32_t i = 0; i < s_.spans.size(); ++i)
      if (computes(i)) names[s_.spans[i].name][s_.spans[i].rank] += double(g_.measured().work[i]);
    std::vector<double> own(s_.ranks.size(), 0), peers(s_.ranks.size(), 0);
    std::vector<std::map<uint32_t, double>> factor(s_.ranks.size());  // [rank][name]: peers' time by the rank's own
    for (const auto& [name, ranks] : names) {
      if (ranks.size() < 2) continue;
      for (const auto& [rank, ns] : ranks) {
        std::vector<double> others;
        for (const auto& [other, other_ns] : ranks)
          if (other != rank) others.push_back(other_ns);
        const double median = median_of(std::move(others));
        own[rank] += ns, peers[rank] += median;
        if (ns > median) factor[rank][name] = median / ns;
      }
    }
    for (uint32_t r = 0; r < own.size(); ++r) {
      if (peers[r] <= 0 || own[r] < slow_rank_ratio * peers[r]) continue;
      replay(change_sort::equal_rank, fmt::to_string(s_.ranks[r]), own[r] / peers[r], [&](step_graph::times& t) {
        for (uint32_t i = 0; i < s_.spans.size(); ++i)
          if (s_.spans[i].rank == r && computes(i))
            if (const auto at = factor[r].find(s_.spans[i].name); at != factor[r].end())
              t.work[i] = scaled(t.work[i], at->second);
      });
    }
  }

  // Compares the parts of a pipeline: ranks whose first stage is the same. A part takes as long as its fastest rank, so
  // that a slow rank is no slow part.
  void equal_stages() {
    std::vector<uint32_t> part(s_.ranks.size(), no_index);
    std::vector<double> busy(s_.ranks.size(), 0);
    for (uint32_t i = 0; i < s_.spans.size(); ++i) {
      const auto& x = s_.spans[i];
      if (x.sort != work_sort::compute || x.stage == no_index) continue;
      part[x.rank] = std::min(part[x.rank], x.stage);
      busy[x.rank] += double(g_.measured().work[i]);
    }
    std::map<uint32_t, double> parts;
    for (size_t r = 0; r < part.size(); ++r)
      if (part[r] != no_index) {
        const auto [at, is_new] = parts.try_emplace(part[r], busy[r]);
        if (!is_new) at->second = std::min(at->second, busy[r]);
      }
    if (parts.size() < 2) return;
    double mean = 0;
    for (const auto& [stage, ns] : parts) mean += ns / double(parts.size());
    const auto longest = std::ranges::max_element(parts, {}, [](const auto& p) { return p.second; });
    if (longest->second < unbalanced_ratio * mean) return;
    replay(change_sort::equal_stages, fmt::to_string(longest->first), longest->second / mean,
           [&](step_graph::times& t) {
             for (uint32_t i = 0; i < s_.spans.size(); ++i)
               if (const auto& x = s_.spans[i]; x.sort == work_sort::compute && x.stage != no_index)
                 if (const double ns = parts.at(part[x.rank]); ns > 0) t.work[i] = scaled(t.work[i], mean / ns);
           });
  }

  // Compares the communicators whose collectives are of the same kinds, members and sizes.
  void equal_links() {
    struct link {
      std::set<uint32_t> kinds, ranks;
      double ns = 0, bytes = 0, count = 0;
    };
    std::map<std::pair<uint32_t, uint32_t>, link> links;  // [communicator, first kind]
    for (uint32_t k = 0; k < s_.collectives; ++k) {
      const auto& members = g_.members(k);
      if (members.size() < 2 || s_.spans[members.front()].communicator == no_index) continue;
      uint32_t kind = no_index;
      for (const uint32_t i : members) kind = std::min(kind, s_.spans[i].kind);
      auto& l = links[{s_.spans[members.front()].communicator, kind}];
      int64_t ns = 0;
      for (const uint32_t i : members) {
        l.kinds.insert(s_.spans[i].kind), l.ranks.insert(s_.ranks[s_.spans[i].rank]);
        ns = std::max(ns, g_.measured().work[i]);
      }
      l.ns += double(ns), l.bytes += double(s_.spans[members.front()].bytes), l.count += 1;
    }
    for (const auto& [key, l] : links) {
      if (l.bytes <= 0) continue;
      std::vector<double> rates;  // ns a byte of the peers
      for (const auto& [other_key, o] : links) {
        const double sizes = o.bytes <= 0 ? 0 : l.bytes / l.count / (o.bytes / o.count);
        if (other_key != key && o.kinds == l.kinds && o.ranks.size() == l.ranks.size() &&
            sizes >= 1 / same_bytes_factor && sizes <= same_bytes_factor)
          rates.push_back(o.ns / o.bytes);
      }
      const double peers = median_of(std::move(rates)) * l.bytes;
      if (peers <= 0 || l.ns < slow_link_ratio * peers) continue;
      replay(change_sort::equal_link, fmt::format("{}", fmt::join(l.ranks, ", ")), l.ns / peers,
             [&](step_graph::times& t) {
               for (uint32_t i = 0; i < s_.spans.size(); ++i)
                 if (s_.spans[i].communicator == key.first && l.kinds.contains(s_.spans[i].kind))
                   t.work[i] = scaled(t.work[i], peers / l.ns);
             });
    }
  }

  // Sends and receives are the two ends of the same collectives, so they are one kind.
  void free_collectives() {
    std::map<std::string, std::set<uint32_t>> kinds;
    for (const auto& x : s_.spans)
      if (x.sort == work_sort::communication) {
        const auto& name = s_.kinds[x.kind];
        kinds[name == "receive" ? "send" : name].insert(x.kind);
      }
    for (const auto& [name, same] : kinds)
      replay(change_sort::free_collective, name, 0, [&](step_graph::times& t) {
        for (uint32_t i = 0; i < s_.spans.size(); ++i)
          if (s_.spans[i].sort == work_sort::communication && same.contains(s_.spans[i].kind)) t.work[i] = 0;
      });
  }

  void free_work(change_sort sort, work_sort work) {
    if (std::ranges::none_of(s_.spans, [&](const traced_span& x) { return x.sort == work; })) return;
    replay(sort, "", 0, [&](step_graph::times& t) {
      for (uint32_t i = 0; i < s_.spans.size(); ++i)
        if (s_.spans[i].sort == work) {
          t.work[i] = 0;
          if (work == work_sort::host) t.gap[i] = 0;
        }
    });
  }

  void no_gaps() {
    replay(change_sort::no_gaps, "", 0, [&](step_graph::times& t) {
      for (uint32_t i = 0; i < s_.spans.size(); ++i)
        if (s_.spans[i].sort != work_sort::host) t.gap[i] = 0;
    });
  }

  const step_graph& g_;
  const traced_step& s_;
  std::vector<tried_change> out_;
};

}  // namespace

std::vector<tried_change> changes_of(const step_graph& g) { return trial(g).all(); }

}  // namespace troupe::telemetry
