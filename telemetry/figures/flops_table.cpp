// Formats the flops profiler's page. Multiply-accumulates are half of the flops in the model's table.
#include <fmt/format.h>

#include <algorithm>

#include "telemetry/figures/unit_profile.hpp"
#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

struct totals {
  double flops = 0, forward_ms = 0, backward_ms = 0;
};

// Returns a text such as "31.5 MMACs", with the prefix directly before the unit.
std::string with_unit(double x, const char* unit) {
  const std::string out = short_number(x);
  const size_t end = out.find_last_of("0123456789-") + 1;
  return out.substr(0, end) + " " + out.substr(end) + unit;
}

std::string rate(double flops, double ms) { return ms > 0 ? with_unit(flops / (ms / 1e3), "FLOPS") : "-"; }
std::string line(const std::string& what, const std::string& value) {
  return text_of("%-72s%s\n", (what + ":").c_str(), value.c_str());
}

struct ranked {
  std::string name;
  double parameters, macs, forward_ms;
};

// Returns a text such as "block 3 1.2M, head 0.9M": the `n` largest of `all` by `figure`.
std::string top(std::vector<ranked> all, uint64_t n, auto figure, const char* unit) {
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return figure(a) > figure(b); });
  std::string out;
  for (size_t i = 0; i < std::min<uint64_t>(n, all.size()); ++i)
    out += (i == 0 ? "" : ", ") + all[i].name + " " + with_unit(figure(all[i]), unit);
  return out;
}

std::string aggregate(const std::string& depth, const std::vector<ranked>& all, uint64_t n) {
  return "depth " + depth + ":\n" + "  params      - " +
         top(
             all, n, [](const auto& r) { return r.parameters; }, "") +
         "\n" + "  MACs        - " +
         top(
             all, n, [](const auto& r) { return r.macs; }, "MACs") +
         "\n" + "  fwd latency - " +
         top(
             all, n, [](const auto& r) { return r.forward_ms; }, "ms") +
         "\n";
}

std::string node(int depth, const std::string& name, uint64_t parameters, const totals& t, const totals& all) {
  const auto share = [](double part, double whole) { return whole > 0 ? 100 * part / whole : 0.0; };
  return std::string(static_cast<size_t>(2 * depth), ' ') + name + ": " + short_number(double(parameters)) +
         " params, " + with_unit(t.flops / 2, "MACs, ") +
         text_of("%.1f%% MACs, fwd %.3f ms, %.1f%% of fwd, ", share(t.flops, all.flops), t.forward_ms,
                 share(t.forward_ms, all.forward_ms)) +
         rate(t.flops, t.forward_ms) + text_of(", bwd %.3f ms\n", t.backward_ms);
}

}  // namespace

std::string flops_table(const profile_sums& sums, const profiled_run& run, const flops_table_options& options) {
  const auto units = sums.units();
  totals all;
  std::vector<ranked> of_units, of_segments;
  for (const auto& u : units) {
    all.flops += u.forward_flops();
    all.forward_ms += u.forward_ms();
    all.backward_ms += u.backward_ms();
    of_units.push_back({u.name, double(u.parameters), u.forward_flops() / 2, u.forward_ms()});
    for (const auto& s : u.segments)
      of_segments.push_back({u.name + " " + s.name, double(s.parameters), s.forward_flops / 2, s.forward_ms});
  }
  const double factor = 2 + options.recompute_fwd_factor;
  const double iteration_ms = sums.iteration_ms(), micros = double(run.accumulation), parts = run.pipeline;
  const bool cut = run.pipeline > 1;  // true: times and flops are sums over one rank of each part of the pipeline
  const std::string per = cut ? " of model" : " per rank";
  const std::string times = text_of("%g", factor), times_all = text_of("%g", factor + 1);
  std::string out = fmt::format("flops profiler, step {}{}, one micro-batch\n", options.step,
                                cut ? ", one rank of each stage" : ", rank 0");
  out += line("world size", fmt::to_string(run.world_size));
  out += line("batch size per rank", fmt::to_string(run.micro_batch));
  out += line("params per rank", short_number(double(run.parameters_per_rank)));
  out += line("params of model", short_number(double(run.parameters)));
  out += line("fwd MACs" + per, with_unit(all.flops / 2, "MACs"));
  out += line("fwd flops" + per, short_number(all.flops));
  out += line("fwd latency", text_of("%.3f ms", all.forward_ms));
  out += line("fwd FLOPS per rank = fwd flops / fwd latency", rate(all.flops, all.forward_ms));
  out += line("bwd latency", text_of("%.3f ms", all.backward_ms));
  out +=
      line("bwd FLOPS per rank = " + times + " * fwd flops / bwd latency", rate(factor * all.flops, all.backward_ms));
  out += line("fwd+bwd FLOPS per rank = " + times_all + " * fwd flops / (fwd+bwd latency)",
              rate((factor + 1) * all.flops, all.forward_ms + all.backward_ms));
  out += line("step latency", text_of("%.3f ms", sums.step_ms()));
  out += line("iter latency", text_of("%.3f ms", iteration_ms));
  out +=
      line("FLOPS per rank = " + times_all + " * fwd flops * micro-batches / iter latency" + (cut ? " / pipeline" : ""),
           rate((factor + 1) * all.flops * micros / parts, iteration_ms));
  out += line("samples/second", iteration_ms > 0 ? short_number(double(run.micro_batch) * micros * run.world_size /
                                                                parts / (iteration_ms / 1e3))
                                                 : "-");
  const int64_t depth = options.module_depth < 0 ? 2 : std::min<int64_t>(2, options.module_depth);
  out += fmt::format("aggregated, top {} of each depth\n", options.top_modules);
  out += aggregate("0", {{"model", double(run.parameters), all.flops / 2, all.forward_ms}}, options.top_modules);
  if (depth >= 1) out += aggregate("1", of_units, options.top_modules);
  if (depth >= 2) out += aggregate("2", of_segments, options.top_modules);
  if (!options.detailed) return out;
  out += "detailed\n" + node(0, "model", run.parameters, all, all);
  for (const auto& u : units) {
    if (depth < 1) break;
    out += node(1, u.name, u.parameters, {u.forward_flops(), u.forward_ms(), u.backward_ms()}, all);
    for (const auto& s : u.segments)
      if (depth >= 2) out += node(2, s.name, s.parameters, {s.forward_flops, s.forward_ms, s.backward_ms}, all);
  }
  return out;
}

}  // namespace troupe::telemetry
