#include "telemetry/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "telemetry/report/chart.hpp"
#include "telemetry/report/page_parts.hpp"
#include "telemetry/report/report_style.hpp"
#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

constexpr size_t owner_colours = 10;  // number of colours for owners of memory: .m0 to .m9 of report_style.hpp

std::string plural(uint64_t n, const char* one, const char* many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

const char* name_of(verdict v) { return v == verdict::done ? "done" : v == verdict::stopped ? "stopped" : "failed"; }

std::string headline(const report_data& d) {
  const auto& f = d.facts;
  std::string out = "<header><h1>" + html_escaped(f.name) + "</h1>\n<p><span class=\"verdict " +
                    name_of(d.end.verdict) + "\">" + name_of(d.end.verdict) + "</span> ";
  out += d.end.verdict == verdict::done ? "after " + plural(d.steps_done, "step", "steps")
                                        : fmt::format("after {} of {}", d.steps_done, plural(f.steps, "step", "steps"));
  if (d.end.validation_loss)
    out += text_of(", validation loss %.4f ", *d.end.validation_loss) + html_escaped(f.loss_unit);
  out += " in " + duration_text(d.end.seconds) + ".</p>\n";
  if (!d.end.failure.empty()) out += "<p class=\"failure\">" + html_escaped(d.end.failure) + "</p>\n";
  return out + "</header>\n";
}

/// Returns the words that name the run's first validation set behind a heading; empty for the held-out part.
std::string of_first_set(const run_curves& c) { return c.validation_name.empty() ? "" : ", " + c.validation_name; }

std::string figures(const report_data& d) {
  const auto& f = d.facts;
  std::string out = "<dl>\n";
  const auto figure = [&out](const char* what, const std::string& value, const std::string& small = "") {
    out += std::string("<div><dt>") + what + "</dt><dd>" + html_escaped(value) +
           (small.empty() ? "" : " <small>" + html_escaped(small) + "</small>") + "</dd></div>\n";
  };
  if (d.curves != nullptr && !d.curves->loss.empty())
    figure("Training loss, last step", text_of("%.4f", d.curves->loss.last()), f.loss_unit);
  const std::string first = d.curves == nullptr ? "" : of_first_set(*d.curves);
  if (d.end.validation_loss)
    figure(("Validation loss" + html_escaped(first)).c_str(), text_of("%.4f", *d.end.validation_loss), f.loss_unit);
  for (size_t i = 0; d.curves != nullptr && i < d.curves->validation_sets.size(); ++i) {
    const auto& set = d.curves->validation_sets[i];
    if (!set.values.empty())
      figure(("Validation loss, " + html_escaped(set.name)).c_str(), text_of("%.4f", set.values.last()), f.loss_unit);
  }
  if (d.step_seconds > 0) {
    figure("Throughput", short_number(double(d.tokens) / d.step_seconds), "tokens/s");
    figure("A step", text_of("%.1f", 1e3 * d.step_seconds / double(std::max<uint64_t>(1, d.steps_done))), "ms");
  }
  figure("Trained on", short_number(double(d.tokens)), "tokens");
  figure("Parameters", short_number(double(f.parameters)), f.parameter_dtype);
  figure("Sharding", fmt::format("ZeRO-{}", f.zero_stage), plural(f.ranks, "rank", "ranks"));
  if (f.pipeline > 1) figure("Cut", f.mesh);
  figure("Global batch", fmt::to_string(f.micro_batch * f.accumulation * (f.ranks / f.pipeline)),
         f.sequence > 0 ? fmt::format("x {} tokens", f.sequence) : "");
  if (d.step_s > 0 && f.ranks > 1)
    figure("Exposed communication", text_of("%.1f", 100 * d.exposed_s / d.step_s), "% of a step");
  if (d.step_s > 0) figure("Idle for control", text_of("%.2f", 100 * d.control_idle_s / d.step_s), "% of a step");
  if (d.end.process_peak_bytes > 0) figure("Peak memory", core::human_bytes(d.end.process_peak_bytes), "process");
  return out + "</dl>\n";
}

std::string sample(const report_data& d) {
  if (d.end.sample.empty()) return "";
  return "<h2>Written by the model</h2>\n<pre class=\"text\">" + html_escaped(d.end.sample) + "</pre>\n";
}

std::string curves(const report_data& d) {
  if (d.curves == nullptr || d.curves->loss.num_values() + d.curves->loss.num_not_finite() == 0) return "";
  const auto& c = *d.curves;
  std::string out = "<h2>Curves</h2>\n<div class=\"charts\">\n";
  const std::string first = of_first_set(c);
  if (!c.validation.empty())
    out += as_svg({"Validation loss" + first, d.facts.loss_unit, &c.validation, nullptr, "", false, false});
  for (const auto& set : c.validation_sets)
    out += as_svg({"Validation loss, " + set.name, d.facts.loss_unit, &set.values, nullptr, "", false, false});
  out += as_svg({"Loss", d.facts.loss_unit, &c.loss, &c.validation, "validation" + first, false, true});
  out += as_svg({"Learning rate", "", &c.lr, nullptr, "", true, false});
  out += as_svg({"Gradient norm", "", &c.grad_norm, nullptr, "", true, true});
  out += as_svg({"Throughput", "tokens/s", &c.tokens_per_s, nullptr, "", true, true});
  for (const auto& [name, values] : c.metrics) out += as_svg({name, "", &values, nullptr, "", false, true});
  out += "</div>\n<p class=\"quiet\">Over steps.";
  if (c.loss.values_per_bin() > 1)
    out += fmt::format(" Long curves are thinned: the minimum and the maximum of every {} steps are drawn.",
                       c.loss.values_per_bin());
  const uint64_t missing = c.loss.num_not_finite() + c.grad_norm.num_not_finite();
  if (missing > 0) out += " " + plural(missing, "value", "values") + " of loss and gradient norm were not finite.";
  return out + "</p>\n";
}

std::string one_step(const report_data& d) {
  if (d.lanes.empty()) return "";
  std::string out = fmt::format("<h2>One step, lane by lane</h2>\n<p class=\"quiet\">Step {}.", d.drawn_step);
  if (d.step_s > 0) {
    out += text_of(
        " On average a step takes %.1f ms between its first and last instruction; compute is busy for %.1f ms and idle "
        "for control for %.2f ms",
        1e3 * d.step_s, 1e3 * d.compute_s, 1e3 * d.control_idle_s);
    if (d.facts.ranks > 1)
      out += text_of("; communication takes %.1f ms, %.1f ms of it hidden behind other work", 1e3 * d.communication_s,
                     1e3 * (d.communication_s - d.exposed_s));
    out += ".";
  }
  return out + "</p>\n<div class=\"card\">" + lanes_svg(d.lanes) + "</div>\n";
}

std::string stages(const report_data& d) {
  const auto& p = d.pipeline;
  if (p.steps == 0) return "";
  std::string rows;
  for (const auto& s : p.stages) {
    std::string ranks;
    for (uint32_t r : s.ranks) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", r);
    rows += row_of({fmt::to_string(s.stage), ranks, fmt::to_string(s.units), fmt::to_string(s.micros_in_flight),
                    fmt::to_string(s.gathers), core::human_bytes(s.sent_bytes),
                    text_of("%.1f %%", 100 * p.planned_idle(s)), text_of("%.1f %%", 100 * p.measured_idle(s))},
                   "td");
  }
  return "<h2>Stages</h2>\n<p class=\"quiet\">One step of one rank of each stage. Idle is the share of the step in "
         "which its compute lane waits: planned, by simulating the plan with this run's mean times" +
         text_of(" (%.1f ms), and measured (%.1f ms).</p>\n", 1e3 * p.planned_step_s, 1e3 * p.measured_step_s) +
         table_of(
             {"stage", "ranks", "units", "micro-batches in flight", "gathers", "sent", "idle, planned", "measured"},
             rows);
}

// Returns the rows of memory to show, one for each rank. If there are too many ranks, returns the rows of the first
// ranks; in a pipeline, of the first whole copies of the model.
std::vector<memory_row> rows_to_show(const report_data& d) {
  auto out = d.end.memory;
  if (out.size() <= drawn_ranks_limit) return out;
  const uint32_t copies = d.facts.ranks / d.facts.pipeline;
  std::ranges::stable_sort(out, {}, [&](const memory_row& m) { return d.facts.pipeline == 1 ? 0 : m.rank % copies; });
  out.resize(drawn_ranks_limit);
  std::ranges::sort(out, {}, &memory_row::rank);
  return out;
}

std::string memory(const report_data& d) {
  const auto all = rows_to_show(d);
  if (all.empty()) return "";
  const size_t shown = all.size();
  uint64_t most = 1;
  for (size_t r = 0; r < shown; ++r) most = std::max(most, all[r].total());
  std::string out = "<h2>Memory by owner and tier</h2>\n";
  cells head{"owner"}, sum{"in all"};
  for (size_t r = 0; r < shown; ++r) {
    const auto& m = all[r];
    head.push_back(fmt::format("rank {}, {}{}", m.rank, m.stages.empty() ? "" : m.stages + ", ", html_escaped(m.tier)));
    sum.push_back(core::human_bytes(m.total()));
    out += fmt::format("<div class=\"bar\" title=\"rank {}\">", m.rank);
    for (size_t i = 0; i < m.owners.size(); ++i)
      if (m.owners[i].second > 0)
        out += text_of("<i class=\"m%zu\" style=\"width:%.2f%%\" title=\"", i % owner_colours,
                       100 * double(m.owners[i].second) / double(most)) +
               html_escaped(m.owners[i].first) + "\"></i>";
    out += "</div>";
  }
  std::string rows;
  for (size_t i = 0; i < all.front().owners.size(); ++i) {
    uint64_t any = 0;
    cells c{text_of("<i class=\"key m%zu\"></i>", i % owner_colours) + html_escaped(all.front().owners[i].first)};
    for (size_t r = 0; r < shown; ++r) {
      const uint64_t bytes = i < all[r].owners.size() ? all[r].owners[i].second : 0;
      any += bytes;
      c.push_back(core::human_bytes(bytes));
    }
    if (any > 0) rows += row_of(c, "td");
  }
  out += table_of(head, rows + row_of(sum, "td", "sum"));
  if (d.end.memory.size() > shown)
    out += text_of("<p class=\"quiet\">%zu of %zu ranks.</p>\n", shown, d.end.memory.size());
  return out;
}

std::string communication(const report_data& d) {
  if (d.communication.empty()) return "";
  std::string rows;
  for (const auto& r : d.communication) {
    const bandwidth b = bandwidth_of(r.op, r.message_bytes, r.ranks, r.average_ms());
    rows += row_of({html_escaped(r.op), html_escaped(r.purpose), core::human_bytes(r.message_bytes),
                    fmt::to_string(r.count), text_of("%.1f", r.latency_ms), text_of("%.3f", r.average_ms()),
                    text_of("%.2f", b.algorithm_gbps), text_of("%.2f", b.bus_gbps)},
                   "td");
  }
  return "<h2>Communication</h2>\n<p class=\"quiet\">Times are measured from the arrival of the last rank to the end; "
         "a message is the contribution of one rank.</p>\n" +
         table_of({"operation", "for", "message", "count", "total ms", "mean ms", "algbw Gbit/s", "busbw Gbit/s"},
                  rows);
}

std::string units(const report_data& d) {
  if (d.units.empty()) return "";
  double all_ms = 0;
  for (const auto& u : d.units) all_ms += u.forward_ms() + u.backward_ms();
  std::string rows;
  uint64_t num_rows = 0;
  const auto line = [&](const std::string& name, uint64_t parameters, double flops, double forward, double backward,
                        const char* kind) {
    ++num_rows;
    rows +=
        row_of({html_escaped(name), short_number(double(parameters)), short_number(flops / 2), text_of("%.3f", forward),
                text_of("%.3f", backward), forward > 0 ? short_number(flops / (forward / 1e3)) : "-",
                all_ms > 0 ? text_of("%.1f %%", 100 * (forward + backward) / all_ms) : "-"},
               "td", kind);
  };
  for (const auto& u : d.units) {
    line(u.name, u.parameters, u.forward_flops(), u.forward_ms(), u.backward_ms(), "");
    if (u.segments.size() > 1)
      for (const auto& s : u.segments) line(s.name, s.parameters, s.forward_flops, s.forward_ms, s.backward_ms, "sub");
  }
  return std::string("<h2>Units of the model</h2>\n<p class=\"quiet\">") +
         (d.facts.pipeline > 1 ? "One rank of each stage" : "Rank 0") +
         ", means per micro-batch. A parameter that two units share is counted in both.</p>\n"
         "<details><summary>Times of " +
         plural(d.units.size(), "unit", "units") + " in " + plural(num_rows, "row", "rows") + "</summary>\n" +
         table_of({"unit", "parameters", "MACs", "forward ms", "backward ms", "forward FLOP/s", "share of time"},
                  rows) +
         "</details>\n";
}

std::string host_layers(const report_data& d) {
  if (d.facts.host_layers.empty()) return "";
  return "<h2>Layers of the host's modules</h2>\n<pre class=\"text\">" + html_escaped(d.facts.host_layers) + "</pre>\n";
}

std::string left_out(const report_data& d) {
  std::string out = "<h2>Skipped</h2>\n<p>";
  if (d.num_skipped == 0) {
    out += "No step was skipped.";
  } else {
    out += plural(d.num_skipped, "step was", "steps were") + " skipped because the gradient overflowed: ";
    for (size_t i = 0; i < d.skipped.size(); ++i)
      out += fmt::format("{}{}{}", i == 0 ? "" : ", ", d.skipped[i].step,
                         text_of(" (loss scale %g)", d.skipped[i].loss_scale));
    out += d.num_skipped > d.skipped.size() ? " and others." : ".";
  }
  for (size_t i = 0; i < d.end.left_out.size(); ++i)
    out += (i == 0 ? " Samples were left out, those of " : "; of ") + html_escaped(d.end.left_out[i]);
  if (!d.end.left_out.empty()) out += ".";
  if (d.num_not_recorded > 0)
    out += " " + plural(d.num_not_recorded, "record", "records") +
           " of telemetry were dropped because the writers fell behind.";
  return out + "</p>\n";
}

std::string foot(const report_data& d) {
  std::string out;
  if (!d.end.configuration.empty())
    out += "<h2>Configuration</h2>\n<details><summary>The effective configuration</summary><pre>" +
           html_escaped(d.end.configuration) + "</pre></details>\n";
  out += "<footer>";
  if (!d.files.empty()) {
    out += "Files next to this page: ";
    for (size_t i = 0; i < d.files.size(); ++i)
      out +=
          (i == 0 ? "" : ", ") + ("<a href=\"" + html_escaped(d.files[i]) + "\">" + html_escaped(d.files[i]) + "</a>");
    out += ". ";
  }
  return out + "Written by Troupe.</footer>\n";
}

}  // namespace

std::string report_page(const report_data& d) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline'\">\n"
         "<title>" +
         html_escaped(d.facts.name) + ": " + name_of(d.end.verdict) + "</title>\n<style>" + report_style +
         kind_style() + report_colours + "</style></head>\n<body><main>\n" + headline(d) + sample(d) + curves(d) +
         figures(d) + one_step(d) + stages(d) + memory(d) + units(d) + host_layers(d) + communication(d) + left_out(d) +
         foot(d) + "</main></body></html>\n";
}

}  // namespace troupe::telemetry
