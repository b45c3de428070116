#include "apps/simulate/simulation_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text.hpp"

namespace troupe::apps {
namespace {

using core::text_of;

std::string ms_text(double seconds) { return text_of("%.3f ms", 1e3 * seconds); }
std::string count_text(uint64_t n, const char* thing) { return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s"); }

/// Returns seconds since the first step of the run began.
double since_begin_s(const sim::history& h, int64_t at_ns) { return double(at_ns - h.steps.front().began_ns) / 1e9; }

/// Returns the number of the step in which a time is.
size_t step_at(const sim::history& h, int64_t at_ns) {
  size_t out = 1;
  while (out < h.steps.size() && h.steps[out].began_ns <= at_ns) ++out;
  return out;
}

/// Returns how many classes of ranks have actors, as a part of a sentence; empty if each rank has its own.
std::string classes_text(const simulation& s) {
  const auto text = [](const simulated_outcome& x) {
    return x.classes == 1 ? std::string("1 class") : fmt::format("{} classes", x.classes);
  };
  if (s.ranks <= unfolded_ranks_max) return {};
  std::string out = ", simulated as " + text(s.healthy);
  if (s.faulty && s.faulty->classes != s.healthy.classes) out += ", with faults as " + text(*s.faulty);
  return out;
}

std::string ranks_text(const std::vector<uint32_t>& ranks) {
  constexpr size_t listed = 8;
  const bool is_run = ranks.back() - ranks.front() + 1 == ranks.size();
  if (ranks.size() > 2 && is_run) return fmt::format("ranks {} to {}", ranks.front(), ranks.back());
  if (ranks.size() > listed) return fmt::format("{} ranks from {} to {}", ranks.size(), ranks.front(), ranks.back());
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

/// Returns a table as lines of text that begin with two spaces.
std::string indented(text_rows rows, const std::vector<bool>& right) {
  for (auto& row : rows) row.front().insert(0, "  ");
  return core::aligned(rows, right);
}

}  // namespace

text_rows parts_rows(const simulation& s) {
  const auto& healthy = s.healthy.parts;
  const step_parts mean = mean_of(healthy);
  const bool compares = s.faulty && !s.faulty->parts.empty();
  const step_parts other = compares ? mean_of(s.faulty->parts) : step_parts{};
  text_rows rows{{"mean of the ranks", "time", "of the step", "most", "on rank"}};
  if (compares) rows.front().emplace_back("with faults");
  double sum_s = 0, sum_of_other_s = 0;
  for (size_t p = 0; p < num_step_parts; ++p) {
    sum_s += mean[p];
    sum_of_other_s += other[p];
    if (mean[p] == 0 && other[p] == 0) continue;
    const auto most = std::ranges::max_element(healthy, {}, [p](const step_parts& x) { return x[p]; });
    rows.push_back({std::string(step_part_names[p]), ms_text(mean[p]),
                    text_of("%.1f %%", 100 * mean[p] / s.healthy.step_s), ms_text((*most)[p]),
                    fmt::to_string(most - healthy.begin())});
    if (compares) rows.back().push_back(ms_text(other[p]));
  }
  rows.push_back({"in all", ms_text(sum_s), text_of("%.1f %%", 100 * sum_s / s.healthy.step_s), "", ""});
  if (compares) rows.back().push_back(ms_text(sum_of_other_s));
  return rows;
}

text_rows traffic_rows(const simulation& s) {
  text_rows rows{{"collectives of a step", "of", "groups", "number", "bytes of a group", "over"}};
  for (const auto& x : s.traffic)
    rows.push_back({x.name, ranks_text(x.ranks), fmt::to_string(x.groups), fmt::to_string(x.collectives),
                    core::human_bytes(x.bytes),
                    x.hosts.size() == 1 ? "one host" : fmt::format("{} hosts", x.hosts.size())});
  return rows;
}

text_rows link_rows(const simulation& s) {
  text_rows rows{{"busiest links of a step", "bytes", "GB/s", "least time", "of the step"}};
  for (const auto& x : s.network->busiest)
    rows.push_back({fmt::format("{} to {}", x.from, x.to), core::human_bytes(x.bytes),
                    text_of("%.4g", x.bytes_per_s / 1e9), ms_text(x.busy_s),
                    text_of("%.1f %%", 100 * x.busy_s / s.healthy.step_s)});
  return rows;
}

text_rows memory_rows(const simulation& s) {
  text_rows rows{{"memory of a rank", "set aside", "most in use", "on rank", "at"}};
  const auto& h = s.healthy.run.log();
  for (const auto& x : s.memory)
    rows.push_back({x.owner, core::human_bytes(x.planned_bytes), core::human_bytes(x.peak_bytes),
                    x.peak_bytes > 0 ? fmt::to_string(x.rank) : "-",
                    x.peak_bytes > 0 ? ms_text(since_begin_s(h, x.at_ns)) : "-"});
  return rows;
}

std::string network_text(const simulation& s) {
  const network_use& on = *s.network;
  return fmt::format("network {}: {}, {}", core::printable_line(on.name), count_text(on.nodes, "node"),
                     count_text(on.devices, "device"));
}

std::string bounding_link_text(const simulation& s) {
  if (s.network->busiest.empty()) return "no link carries bytes";
  const auto& first = s.network->busiest.front();
  return fmt::format("the link from {} to {} bounds the step most: {} need at least {}{}, {} of the step", first.from,
                     first.to, core::human_bytes(first.bytes), ms_text(first.busy_s),
                     first.is_limited ? ", because its switch is oversubscribed" : "",
                     text_of("%.1f %%", 100 * first.busy_s / s.healthy.step_s));
}

std::string fit_text(const simulation& s) {
  const auto& card = *s.card;
  const uint64_t planned = s.planned_bytes(), all = planned + card.other_bytes.value_or(0);
  const auto beside = card.other_bytes
                          ? fmt::format("{} of the plan and {} beside it", core::human_bytes(planned),
                                        core::human_bytes(*card.other_bytes))
                          : fmt::format("{} of the plan (what is beside it is not known)", core::human_bytes(planned));
  if (all > card.memory_bytes)
    return fmt::format("memory exceeds the card: {}, {} more than its {}", beside,
                       core::human_bytes(all - card.memory_bytes), core::human_bytes(card.memory_bytes));
  return fmt::format("memory fits: {}, {} of the card's {} to spare", beside,
                     core::human_bytes(card.memory_bytes - all), core::human_bytes(card.memory_bytes));
}

std::string simulated_ranks_text(const simulation& s) {
  auto out = fmt::format("{} on {}{}, {}, seed {}", count_text(s.ranks, "rank"), count_text(s.hosts, "host"),
                         classes_text(s), count_text(s.steps.size(), "step"), s.healthy.run.log().seed);
  if (s.card)
    out += fmt::format(
        "\nthe actors of the job's plans on {}{}, by the constants of {}", s.card->name,
        s.network ? std::string() : fmt::format(", {} a host", count_text(std::min(s.ranks, s.card->node_gpus), "GPU")),
        s.card->stack);
  return out;
}

std::string step_text(const simulation& s) {
  const auto out = fmt::format("a step takes {}", ms_text(s.healthy.step_s));
  return s.predicted_s ? fmt::format("{}; troupe plan predicts {}", out, ms_text(*s.predicted_s)) : out;
}

std::string mfu_text(const simulation& s) {
  return text_of("MFU %.1f%% of %.4g TFLOP/s of %s", 100 * s.mfu(), s.peak_flops_per_s / 1e12,
                 s.card                           ? "all GPUs"
                 : s.costs.device_bytes_per_s > 0 ? "the device"
                                                  : "all ranks");
}

std::string faults_text(const simulation& s) {
  const auto& h = s.faulty->run.log();
  std::string out;
  for (size_t i = 0; i < s.faults.size(); ++i) {
    const auto& f = h.faults[i];
    out += fmt::format("fault: {}\n", core::printable_line(s.faults[i].text));
    out += f.happened
               ? fmt::format("  happened at {}, in step {}\n", ms_text(since_begin_s(h, f.at_ns)), step_at(h, f.at_ns))
               : "  did not happen: the run ended before\n";
  }
  for (const auto& line : h.warnings) out += "warning: " + line + "\n";
  if (!s.loss) {
    const double more_s = s.faulty->total_s - s.healthy.total_s;
    return out + fmt::format("the run goes on: no error\ncost: {} take {}, {} {} than without faults\n",
                             count_text(h.steps.size(), "step"), ms_text(s.faulty->total_s),
                             ms_text(more_s < 0 ? -more_s : more_s), more_s < 0 ? "less" : "more");
  }
  const auto& l = *s.loss;
  out += fmt::format("noticed {} later; step {} fails:\n  {}\n", ms_text(l.noticed_after_s), l.failed_step,
                     core::printable_line(h.steps.back().failure->text));
  out += l.resumed_behind > 0
             ? fmt::format("cost: a resumed job begins behind step {}, its latest whole checkpoint; ", l.resumed_behind)
             : "cost: there is no whole checkpoint, and a resumed job begins anew; ";
  return out + fmt::format("{} are lost\n", ms_text(l.lost_s));
}

std::string simulation_as_text(const simulation& s) {
  std::string out = simulated_ranks_text(s) + "\n" + step_text(s) + "\n";
  out += indented(parts_rows(s), {false, true, true, true, true, true});
  out += mfu_text(s) + "\n";
  if (s.hosts > 1 && !s.card && !s.network)
    out += text_of("between hosts: %.4g GB/s after %.4g us\n", s.between_hosts.bytes_per_second / 1e9,
                   s.between_hosts.latency_us);
  out += s.traffic.empty() ? "no collectives\n" : indented(traffic_rows(s), {false, false, true, true, true, false});
  if (s.network) {
    out += network_text(s) + "\n";
    if (!s.network->busiest.empty()) out += indented(link_rows(s), {false, true, true, true, true});
    out += bounding_link_text(s) + "\n";
  }
  out += indented(memory_rows(s), {false, true, true, true, true});
  if (s.card) out += fit_text(s) + "\n";
  for (const auto& line : s.healthy.run.log().warnings) out += "warning: " + line + "\n";
  return s.faulty ? out + faults_text(s) : out;
}

}  // namespace troupe::apps
