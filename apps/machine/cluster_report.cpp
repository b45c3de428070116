// Prints the results of `troupe doctor --cluster`. Pure.
#include "apps/machine/cluster_doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.hpp"

namespace troupe::apps {
namespace {

const char* name_of(condition c) { return c == condition::fine ? "fine" : c == condition::poor ? "poor" : "wrong"; }

std::string pair_text(const examined_pair& p) {
  if (!p.problem.empty()) return "none";
  return fmt::format("{}/s {:.2f} ms", bytes_text(static_cast<uint64_t>(p.bytes_per_s)), 1e3 * p.delay_s);
}

std::string hosts_table(const examined_cluster& all) {
  std::vector<std::vector<std::string>> rows = {{"host", "cores", "memory", "available", "disk free", "processor"}};
  for (const auto& h : all.hosts) {
    if (!h.facts) {
      rows.push_back({h.name, "-", "-", "-", "-", h.problem});
      continue;
    }
    const auto& f = *h.facts;
    rows.push_back({h.name, fmt::to_string(f.cores), bytes_text(f.memory_bytes), bytes_text(f.available_bytes),
                    bytes_text(f.free_bytes), f.processor});
  }
  return core::aligned(rows);
}

std::string pairs_table(const examined_cluster& all) {
  std::vector<std::vector<std::string>> rows = {{"from \\ to"}};
  for (const auto& h : all.hosts) rows.front().push_back(h.name);
  for (const auto& h : all.hosts) rows.push_back({h.name});
  for (auto& r : rows) r.resize(all.hosts.size() + 1);
  for (const auto& p : all.pairs) rows[p.from + 1][p.to + 1] = pair_text(p);
  return core::aligned(rows);
}

std::string pairs_by_host(const examined_cluster& all) {
  std::vector<std::vector<std::string>> rows = {{"from", "slowest", "", "fastest", ""}};
  for (uint32_t h = 0; h < all.hosts.size(); ++h) {
    const examined_pair *slowest = nullptr, *fastest = nullptr;
    for (const auto& p : all.pairs) {
      if (p.from != h || !p.problem.empty()) continue;
      if (slowest == nullptr || p.bytes_per_s < slowest->bytes_per_s) slowest = &p;
      if (fastest == nullptr || p.bytes_per_s > fastest->bytes_per_s) fastest = &p;
    }
    if (slowest == nullptr) continue;
    rows.push_back({all.hosts[h].name, "to " + all.hosts[slowest->to].name, pair_text(*slowest),
                    "to " + all.hosts[fastest->to].name, pair_text(*fastest)});
  }
  return core::aligned(rows);
}

}  // namespace

bool fits(const std::vector<finding>& found) {
  return std::ranges::none_of(found, [](const finding& f) { return f.is == condition::missing; });
}

std::string cluster_text(const examined_cluster& all, const std::vector<finding>& found) {
  std::string out = hosts_table(all);
  if (!all.pairs.empty())
    out += "\n" + (all.hosts.size() <= pair_table_hosts_max ? pairs_table(all) : pairs_by_host(all));
  std::vector<std::vector<std::string>> rows;
  for (const auto& f : found) {
    rows.push_back({name_of(f.is), f.topic, f.found});
    if (!f.costs.empty()) rows.push_back({"", "", "costs: " + f.costs});
    if (!f.command.empty()) rows.push_back({"", "", "mend:  " + f.command});
  }
  out += "\n" + core::aligned(rows);
  const auto wrong = std::ranges::count(found, condition::missing, &finding::is);
  out += wrong == 0 ? fmt::format("{} hosts fit together\n", all.hosts.size())
                    : fmt::format("{} wrong with {} hosts\n",
                                  wrong == 1 ? std::string("1 thing is") : fmt::format("{} things are", wrong),
                                  all.hosts.size());
  return out;
}

std::string cluster_json(const examined_cluster& all, const std::vector<finding>& found) {
  nlohmann::ordered_json j;
  auto& hosts = j["hosts"] = nlohmann::ordered_json::array();
  for (const auto& h : all.hosts) {
    nlohmann::ordered_json one = {{"name", h.name}};
    if (h.facts) {
      const auto& f = *h.facts;
      one.update({{"version", f.version},
                  {"program", f.program},
                  {"configuration", f.configuration},
                  {"processor", f.processor},
                  {"instructions", f.instructions},
                  {"cores", f.cores},
                  {"memory_bytes", f.memory_bytes},
                  {"available_bytes", f.available_bytes},
                  {"folder", f.folder},
                  {"free_bytes", f.free_bytes},
                  {"shares_output", f.sees_token}});
    } else {
      one["problem"] = h.problem;
    }
    if (!h.cannot_listen.empty()) one["cannot_listen"] = h.cannot_listen;
    hosts.push_back(std::move(one));
  }
  auto& pairs = j["pairs"] = nlohmann::ordered_json::array();
  for (const auto& p : all.pairs) {
    nlohmann::ordered_json one = {{"from", all.hosts[p.from].name}, {"to", all.hosts[p.to].name}};
    if (p.problem.empty())
      one.update({{"bytes_per_s", p.bytes_per_s}, {"delay_s", p.delay_s}});
    else
      one["problem"] = p.problem;
    pairs.push_back(std::move(one));
  }
  auto& list = j["findings"] = nlohmann::ordered_json::array();
  for (const auto& f : found)
    list.push_back({{"topic", f.topic},
                    {"condition", name_of(f.is)},
                    {"found", f.found},
                    {"costs", f.costs},
                    {"command", f.command}});
  j["fit"] = fits(found);
  return j.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::apps
