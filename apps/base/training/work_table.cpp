#include "apps/base/training/work_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "telemetry/text.hpp"

namespace troupe::apps {
namespace {

using telemetry::json_number;
using telemetry::json_string;
using telemetry::text_of;

double rate_of(double flops, double seconds) { return seconds > 0 ? flops / seconds : 0; }

std::string unit_line(const std::string& name, const telemetry::work_figures::of_unit& u, double step_s,
                      double peak_flops) {
  const double seconds = u.forward_s + u.backward_s;
  std::string out = text_of("  %-16.16s %9.2f %9.1f %12.2f %9.1f %7.1f%%", name.c_str(), 1e3 * u.forward_s,
                            rate_of(u.forward_flops, u.forward_s) / 1e9, 1e3 * u.backward_s,
                            rate_of(u.backward_flops, u.backward_s) / 1e9, 100 * rate_of(seconds, step_s));
  if (peak_flops > 0)
    out += text_of(" %7.0f%%", 100 * rate_of(u.forward_flops + u.backward_flops, seconds) / peak_flops);
  return out + "\n";
}

}  // namespace

std::string work_text(const telemetry::work_figures& w, const std::vector<std::string>& units, double step_s,
                      double peak_flops) {
  std::string out =
      "where a step's time goes (a rank's lanes work in parallel)\n  instruction     count   busy ms   share\n";
  for (const auto& row : w.kinds)
    out += text_of("  %-15s %5llu %9.2f %6.1f%%\n", std::string(plan::name_of(row.kind)).c_str(),
                   static_cast<unsigned long long>(row.count), 1e3 * row.busy_s, 100 * rate_of(row.busy_s, step_s));
  std::vector<size_t> order(std::min(units.size(), w.units.size()));
  std::iota(order.begin(), order.end(), size_t{0});
  const auto seconds = [&](size_t u) { return w.units[u].forward_s + w.units[u].backward_s; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return seconds(a) > seconds(b); });
  out += "  unit            forward ms   GFLOP/s  backward ms   GFLOP/s   share";
  out += peak_flops > 0 ? text_of("  of %.0f GFLOP/s\n", peak_flops / 1e9) : "\n";
  const size_t named = order.size() <= units_listed_limit ? order.size() : units_listed_limit - 1;
  for (size_t i = 0; i < named; ++i) out += unit_line(units[order[i]], w.units[order[i]], step_s, peak_flops);
  if (named == order.size()) return out;
  telemetry::work_figures::of_unit rest;
  for (size_t i = named; i < order.size(); ++i) {
    const auto& u = w.units[order[i]];
    rest.forward_s += u.forward_s, rest.backward_s += u.backward_s;
    rest.forward_flops += u.forward_flops, rest.backward_flops += u.backward_flops;
  }
  return out + unit_line(fmt::format("{} others", order.size() - named), rest, step_s, peak_flops);
}

std::string work_json(const telemetry::work_figures& w, const std::vector<std::string>& units, double peak_flops) {
  std::string out = "{\"peak_flops\":" + json_number(peak_flops) + ",\"kinds\":[";
  for (const auto& row : w.kinds)
    out += fmt::format("{}{{\"kind\":{},\"count\":{},\"busy_s\":{}}}", out.back() == '[' ? "" : ",",
                       json_string(std::string(plan::name_of(row.kind))), row.count, json_number(row.busy_s));
  out += "],\"units\":[";
  for (size_t u = 0; u < std::min(units.size(), w.units.size()); ++u)
    out += std::string(out.back() == '[' ? "" : ",") + "{\"unit\":" + json_string(units[u]) +
           ",\"forward_s\":" + json_number(w.units[u].forward_s) +
           ",\"backward_s\":" + json_number(w.units[u].backward_s) +
           ",\"forward_flops\":" + json_number(w.units[u].forward_flops) +
           ",\"backward_flops\":" + json_number(w.units[u].backward_flops) + "}";
  return out + "]}";
}

}  // namespace troupe::apps
