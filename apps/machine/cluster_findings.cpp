// Derives findings from the facts about the hosts of a job: which host differs from the others, and why. Pure.
#include "apps/machine/cluster_doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "apps/machine/pair_speeds.hpp"

namespace troupe::apps {
namespace {

struct trait {  ///< a property in which all hosts should be equal
  const char* topic;
  std::function<std::string(const host_facts&)> of;
  const char* costs;
  const char* command;
};

const std::vector<trait>& traits() {
  static const std::vector<trait> all = {
      {"version", [](const host_facts& f) { return f.version; }, "it is refused when the job begins",
       "install the same build of Troupe on all hosts"},
      {"program", [](const host_facts& f) { return f.program.empty() ? "" : "troupe-train " + f.program; },
       "another build of one version may compute other bits", "install the same build of Troupe on all hosts"},
      {"config", [](const host_facts& f) { return f.configuration; }, "it is refused when the job begins",
       "give all hosts the same file, or start the agent without --config: then it takes the first host's"},
      {"processor", [](const host_facts& f) { return f.instructions; },
       "products of matrices are computed in another order there: losses differ in their last bits from those of a job "
       "on equal hosts",
       "ATEN_CPU_CAPABILITY=avx2 on all hosts makes 512-bit processors like others; else leave the host out"},
  };
  return all;
}

/// Returns the most frequent value; in a tie, the one that comes first.
std::string usual(const std::vector<std::string>& values) {
  std::map<std::string, size_t> counts;
  for (const auto& v : values) ++counts[v];
  std::string best;
  size_t most = 0;
  for (const auto& v : values)
    if (counts[v] > most) best = v, most = counts[v];
  return best;
}

void compare(const examined_cluster& all, const trait& t, std::vector<finding>& out) {
  std::vector<std::string> values;
  for (const auto& h : all.hosts)
    if (h.facts)
      if (auto v = t.of(*h.facts); !v.empty()) values.push_back(std::move(v));
  if (values.empty()) return;
  const std::string wanted = usual(values);
  bool equal = true;
  for (const auto& h : all.hosts) {
    const std::string got = h.facts ? t.of(*h.facts) : std::string();
    if (got.empty() || got == wanted) continue;
    equal = false;
    out.push_back({fmt::format("{} of {}", t.topic, h.name), condition::missing,
                   fmt::format("wanted that of the others, {}, got {}", wanted, got), t.costs, t.command});
  }
  if (equal) out.push_back({t.topic, condition::fine, wanted});
}

void look_at_room(const examined_host& h, std::vector<finding>& out) {
  const auto& f = *h.facts;
  const auto of = [&](const char* topic) { return fmt::format("{} of {}", topic, h.name); };
  if (f.available_bytes < memory_wanted_bytes)
    out.push_back({of("memory"), condition::poor,
                   fmt::format("{} of {} available", bytes_text(f.available_bytes), bytes_text(f.memory_bytes)),
                   "only small models fit; troupe plan says which", "ps -eo pid,rss,comm --sort=-rss | head (there)"});
  if (f.cannot_write.empty() && f.free_bytes < free_wanted_bytes)
    out.push_back({of("disk"), condition::poor, fmt::format("{}: {} free", f.folder, bytes_text(f.free_bytes)),
                   "a checkpoint of 100 million parameters takes 1.2 GB and may not fit", ""});
  if (!f.sees_token)
    out.push_back({of("output"), condition::missing,
                   f.folder + ": a file that the first host has written there is not seen",
                   "its ranks would write their part of a checkpoint elsewhere",
                   "put `output` on a file system that all hosts mount under the same name"});
  else if (!f.cannot_write.empty())
    out.push_back({of("output"), condition::missing, f.folder + ": " + f.cannot_write,
                   "its ranks cannot write their part of a checkpoint", "let the job's user write there"});
  for (const auto& file : f.missing_files)
    out.push_back({of("data"), condition::missing, file + " is not there", "its ranks have nothing to train on",
                   "copy it there, or mount it under the same name"});
}

std::string rate_text(double bytes_per_s) { return bytes_text(static_cast<uint64_t>(bytes_per_s)) + "/s"; }

void look_at_network(const examined_cluster& all, std::vector<finding>& out) {
  for (const auto& h : all.hosts)
    if (!h.cannot_listen.empty())
      out.push_back(
          {"address of " + h.name, condition::missing, h.cannot_listen,
           "it accepts nothing from other hosts: the job ends before its first step",
           "give the host an address of its own (cluster.hosts[].bind, cluster.interface), or leave both out"});
  bool whole = std::ranges::all_of(all.hosts, [](const auto& h) { return h.cannot_listen.empty(); });
  for (const auto& p : all.pairs) {
    if (p.problem.empty()) continue;
    whole = false;
    out.push_back({fmt::format("network from {} to {}", all.hosts[p.from].name, all.hosts[p.to].name),
                   condition::missing, p.problem, "ranks of these hosts cannot exchange anything",
                   "let the hosts reach each other on any port"});
  }
  const pair_speeds speeds(all);
  if (speeds.usual_out == 0) return;
  for (size_t h = 0; h < all.hosts.size(); ++h) {
    if (!speeds.is_odd[h]) continue;
    const bool sends = speeds.sends_slowly[h];
    out.push_back(
        {"network of " + all.hosts[h].name, condition::poor,
         sends || speeds.takes_slowly[h]
             ? fmt::format("{} {} at most, where others have {}", rate_text(sends ? speeds.out[h] : speeds.in[h]),
                           sends ? "from it" : "to it", rate_text(sends ? speeds.usual_out : speeds.usual_in))
             : fmt::format("{:.2f} ms at least, where others have {:.2f} ms", 1e3 * speeds.delay[h],
                           1e3 * speeds.usual_delay),
         "every step waits for it", "look at its cable, port and interface (ethtool)"});
  }
  for (const auto& p : all.pairs)
    if (p.problem.empty() && !speeds.is_odd[p.from] && !speeds.is_odd[p.to] && speeds.is_poor(p))
      out.push_back({fmt::format("network from {} to {}", all.hosts[p.from].name, all.hosts[p.to].name),
                     condition::poor,
                     fmt::format("{}, {:.2f} ms, where both have up to {} with others", rate_text(p.bytes_per_s),
                                 1e3 * p.delay_s, rate_text(std::min(speeds.out[p.from], speeds.in[p.to]))),
                     "every step waits for it", ""});
  if (whole && std::ranges::none_of(speeds.is_odd, std::identity{}))
    out.push_back({"network", condition::fine,
                   fmt::format("every pair is connected; {}, {:.2f} ms is usual", rate_text(speeds.usual_out),
                               1e3 * speeds.usual_delay)});
}

}  // namespace

std::vector<finding> examine(const examined_cluster& all) {
  std::vector<finding> out;
  for (const auto& h : all.hosts)
    if (!h.facts)
      out.push_back({"host " + h.name, condition::missing, h.problem, "the job waits for it",
                     "start its agent: troupe agent --join (the first host's cluster.listen) --tls FOLDER"});
  for (const auto& t : traits()) compare(all, t, out);
  for (const auto& h : all.hosts)
    if (h.facts) look_at_room(h, out);
  look_at_network(all, out);
  return out;
}

}  // namespace troupe::apps
