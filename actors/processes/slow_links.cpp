#include "actors/processes/slow_links.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"

namespace troupe::actors {
namespace {

std::string slow_end(uint32_t place, const term_members& members, const std::vector<config::cluster_host>& hosts) {
  for (const auto* const all : {&members.seats, &members.keepers})
    for (const auto& s : *all) {
      if (s.place != place) continue;
      std::string out = s.machine < hosts.size() ? "host " + hosts[s.machine].name : fmt::format("process {}", place);
      if (s.count == 1) out += fmt::format(" (rank {})", s.first);
      if (s.count > 1) out += fmt::format(" (ranks {} to {})", s.first, s.first + s.count - 1);
      return out;
    }
  return fmt::format("process {}", place);
}

}  // namespace

std::vector<slow_link> slow_links::note(int64_t now_ns, std::span<const link_traffic> since_begin) {
  if (begin_ns_ && ++steps_ < window) return {};
  const double passed_s = begin_ns_ ? double(now_ns - *begin_ns_) / 1e9 : 0;
  begin_ns_ = now_ns;
  steps_ = 0;
  struct measured {
    known* link;
    slow_link found;
    double seconds;
  };
  std::vector<measured> all;
  for (const auto& x : since_begin) {
    auto& link = links_[{x.from, x.to}];
    const uint64_t bytes = x.bytes - link.bytes;
    const double seconds = double(x.receiving_ns - link.receiving_ns) / 1e9;
    link.bytes = x.bytes;
    link.receiving_ns = x.receiving_ns;
    if (passed_s > 0 && bytes >= bytes_min && seconds > 0)
      all.push_back({&link, {x.from, x.to, double(bytes) / seconds, 0, 0}, seconds});
  }
  std::vector<slow_link> out;
  if (all.size() < 2) return out;
  std::ranges::sort(all, {}, [](const measured& m) { return m.found.bytes_per_s; });
  const double usual = all[all.size() - 1 - (all.size() - 1) / 4].found.bytes_per_s;
  for (auto& [link, found, seconds] : all) {
    found.usual_bytes_per_s = usual;
    found.share = seconds * (1 - found.bytes_per_s / usual) / passed_s;
    if (found.bytes_per_s >= well_from * usual) link->is_named = false;
    const bool is_slow = found.bytes_per_s < slow_below * usual && found.share >= cost_min;
    link->slow_windows = is_slow ? link->slow_windows + 1 : 0;
    if (link->is_named || link->slow_windows < windows_until_named) continue;
    link->is_named = true;
    out.push_back(found);
  }
  return out;
}

slow_link_report report_of(const slow_link& x, uint64_t step, const term_members& members,
                           const std::vector<config::cluster_host>& hosts) {
  return {step,
          slow_end(x.from, members, hosts),
          slow_end(x.to, members, hosts),
          x.bytes_per_s,
          x.usual_bytes_per_s,
          std::min(1.0, x.share)};
}

std::string ends_of(const slow_link_report& x) { return fmt::format("from {} to {}", x.from, x.to); }

std::string text_of(const slow_link_report& x) {
  return fmt::format(
      "the link {} is slow: it moves {} a second where the job's faster links move {}, which takes {:.0f}% of a step's "
      "time; the run continues (troupe doctor --cluster measures all links)",
      ends_of(x), core::human_bytes(static_cast<uint64_t>(x.bytes_per_s)),
      core::human_bytes(static_cast<uint64_t>(x.usual_bytes_per_s)), 100 * x.share);
}

std::string slow_links_of_run(const std::vector<std::string>& ends) {
  if (ends.empty()) return {};
  std::string out = "links between hosts that were slow and held up steps:";
  for (const auto& x : ends) out += (out.back() == ':' ? " " : ", ") + x;
  return out;
}

}  // namespace troupe::actors
