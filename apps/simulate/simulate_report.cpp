#include "apps/simulate/simulate_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "hardware/csv.hpp"
#include "hardware/price.hpp"

namespace troupe::apps {
namespace {

using json = nlohmann::ordered_json;
using hardware::priced_sample;
using hardware::quantity;
using hardware::sample;

const hardware::stack& stack_of(const measured_table& t, const sample& s) { return t.stacks[s.stack_index]; }

const hardware::constants& constants_of(const measured_table& t, const sample& s) {
  return stack_of(t, s).find(s.of)->values;
}

double error_percent(const sample& s, const priced_sample& p) { return 100 * (p.predicted / s.measured - 1); }

/// Samples of one quantity, and their errors.
struct quantity_rows {
  quantity of = quantity::step;
  std::vector<size_t> measured;  ///< indices of samples with a measured value
  hardware::error_summary errors;
  double within = hardware::absent;             ///< percent of rows in their interval; absent: there is no interval
  std::vector<hardware::influence> influences;  ///< averages over the rows, the three largest
};

std::vector<hardware::influence> influences_on(const measured_table& t, const sample& s, size_t most) {
  return hardware::influences_of(s.of, s.what, stack_of(t, s).on, constants_of(t, s), most);
}

std::vector<hardware::influence> average_influences(const measured_table& t, const std::vector<size_t>& rows) {
  std::map<std::string_view, double> sums;
  for (const size_t i : rows) {
    const auto& s = t.read.samples[i];
    for (const auto& one : influences_on(t, s, hardware::constant_rows().size()))
      sums[one.constant] += one.percent / double(rows.size());
  }
  std::vector<hardware::influence> out;
  for (const auto& [name, percent] : sums) out.push_back({name, percent});
  std::ranges::stable_sort(out, std::greater(), [](const auto& one) { return std::abs(one.percent); });
  out.resize(std::min(out.size(), hardware::named_influences));
  return out;
}

std::vector<quantity_rows> quantities_of(const measured_table& t, const std::vector<priced_sample>& priced) {
  std::vector<quantity_rows> out;
  for (const auto q : hardware::all_quantities) {
    quantity_rows rows;
    rows.of = q;
    std::vector<double> predicted, measured;
    double held = 0, with_interval = 0;
    for (size_t i = 0; i < priced.size(); ++i) {
      const auto& s = t.read.samples[i];
      if (s.of != q || s.ran_out) continue;
      rows.measured.push_back(i);
      predicted.push_back(priced[i].predicted);
      measured.push_back(s.measured);
      with_interval += std::isnan(priced[i].factor) ? 0 : 1;
      held += priced[i].holds(s.measured) ? 1 : 0;
    }
    if (rows.measured.empty()) continue;
    rows.errors = hardware::errors_of(predicted, measured);
    if (with_interval > 0) rows.within = 100 * held / with_interval;
    rows.influences = average_influences(t, rows.measured);
    out.push_back(std::move(rows));
  }
  return out;
}

std::vector<size_t> worst_rows(const measured_table& t, const std::vector<priced_sample>& priced,
                               const quantity_rows& rows) {
  auto out = rows.measured;
  std::ranges::stable_sort(out, std::greater(),
                           [&](size_t i) { return std::abs(error_percent(t.read.samples[i], priced[i])); });
  out.resize(std::min(out.size(), most_worst_rows));
  return out;
}

std::vector<hardware::price_part> parts_of(const measured_table& t, const sample& s) {
  return hardware::parts_of(s.of, s.what, stack_of(t, s).on, constants_of(t, s));
}

/// Returns the parts of a price in percent of it, without those below half a percent: "compute 81 %, host 12 %".
std::string parts_text(const measured_table& t, const sample& s, double whole) {
  std::string out;
  for (const auto& part : parts_of(t, s)) {
    const double percent = 100 * part.value / whole;
    if (percent < 0.5) continue;
    std::string name(part.name.substr(0, part.name.rfind('_')));
    std::ranges::replace(name, '_', ' ');
    out += fmt::format("{}{} {:.0f} %", out.empty() ? "" : ", ", name, percent);
  }
  return out;
}

std::string influences_text(const std::vector<hardware::influence>& all) {
  std::vector<std::string> out;
  for (const auto& one : all) out.push_back(fmt::format("{} {:.2f}", one.constant, one.percent));
  return fmt::format("{}", fmt::join(out, ", "));
}

std::string_view fit_text(hardware::fit_of_memory fit) {
  if (fit == hardware::fit_of_memory::exceeds) return "exceeds";
  return fit == hardware::fit_of_memory::close ? "close" : "fits";
}

/// Returns how the peak of a row's memory fits its card; empty if the stack does not predict memory.
std::string_view fit_of(const measured_table& t, const sample& s) {
  const auto* const model = stack_of(t, s).find(quantity::memory);
  if (model == nullptr || (s.of != quantity::memory && s.of != quantity::step)) return {};
  if (!hardware::needs_of(quantity::memory, s.what, stack_of(t, s).on, model->values)) return {};
  const priced_sample peak{hardware::price_of(quantity::memory, s.what, stack_of(t, s).on, model->values),
                           hardware::interval_factor(*model, s.what)};
  return fit_text(hardware::fit_in(stack_of(t, s).on, peak));
}

/// Returns a sentence about runs that ended for lack of memory; empty if there are none.
std::string ran_out_text(const measured_table& t) {
  std::map<std::string_view, size_t> fits;
  size_t all = 0;
  for (const auto& s : t.read.samples)
    if (s.ran_out) {
      ++all;
      ++fits[fit_of(t, s)];
    }
  if (all == 0) return {};
  return fmt::format("{} {} ran out of memory: {} predicted to exceed the card, {} close to it, {} to fit\n", all,
                     all == 1 ? "row" : "rows", fits["exceeds"], fits["close"], fits["fits"]);
}

/// Returns a sentence about rows whose run fitted although its peak is predicted to exceed the card; empty if none.
std::string wrongly_refused_text(const measured_table& t, const std::vector<priced_sample>& priced) {
  size_t count = 0;
  for (size_t i = 0; i < priced.size(); ++i) {
    const auto& s = t.read.samples[i];
    count += s.of == quantity::memory && !s.ran_out && fit_of(t, s) == "exceeds" ? 1 : 0;
  }
  return count == 0 ? "" : fmt::format("{} rows fitted and are predicted to exceed the card\n", count);
}

json influences_json(const std::vector<hardware::influence>& all) {
  json out = json::array();
  for (const auto& one : all) out.push_back({{"constant", one.constant}, {"percent", one.percent}});
  return out;
}

json number_json(double x) { return std::isfinite(x) ? json(x) : json(nullptr); }

json sample_json(const measured_table& t, const sample& s, const priced_sample& p) {
  json parts = json::object();
  for (const auto& part : parts_of(t, s)) parts[std::string(part.name)] = part.value;
  json out{{"line", s.line},
           {"quantity", name_of(s.of)},
           {"unit", unit_of(s.of)},
           {"hardware", stack_of(t, s).name},
           {"measured", s.ran_out ? json("out of memory") : json(s.measured)},
           {"predicted", p.predicted},
           {"low", number_json(p.low())},
           {"high", number_json(p.high())},
           {"error_percent", s.ran_out ? json(nullptr) : json(error_percent(s, p))},
           {"parts", parts},
           {"matter_most", influences_json(influences_on(t, s, hardware::named_influences))}};
  if (const auto fit = fit_of(t, s); !fit.empty()) out["memory"] = fit;
  return out;
}

/// Returns the names of all parts that the table's quantities have, in order.
std::vector<std::string_view> part_names(const measured_table& t) {
  std::vector<std::string_view> out;
  for (const auto& s : t.read.samples)
    for (const auto& part : parts_of(t, s))
      if (std::ranges::find(out, part.name) == out.end()) out.push_back(part.name);
  return out;
}

}  // namespace

std::string percent_text(double percent) {
  return std::isnan(percent) ? "-" : fmt::format("{:.{}f} %", percent, std::abs(percent) >= 99.5 ? 0 : 1);
}

std::string value_text(quantity q, double value) {
  if (q == quantity::memory) return core::human_bytes(value);
  constexpr double milli = 1e-3, micro = 1e-6;
  if (value >= 1) return fmt::format("{:.4g} s", value);
  return value >= milli ? fmt::format("{:.4g} ms", value / milli) : fmt::format("{:.4g} us", value / micro);
}

std::string simulated_text(const measured_table& t, const std::vector<priced_sample>& priced) {
  std::vector<std::string> by;
  for (const auto& s : t.stacks) by.push_back(fmt::format("{} ({} on {})", s.name, s.software, s.on.name));
  std::string out = fmt::format("{}: {} rows of the form {}, priced by {}\n", core::printable_line(t.file), t.read.rows,
                                t.form, fmt::join(by, " and "));
  for (const auto& s : t.stacks)
    if (!s.inherited_from.empty())
      out += fmt::format("{} has the constants of {}: {}\n", s.name, s.inherited_from, s.because);
  const auto all = quantities_of(t, priced);
  std::vector<std::vector<std::string>> rows = {
      {"", "rows", "mean", "median", "worst", "in 80 % interval", "pairs in order"}};
  for (const auto& one : all)
    rows.push_back({std::string(name_of(one.of)), fmt::to_string(one.errors.rows), percent_text(one.errors.mean),
                    percent_text(one.errors.median), percent_text(one.errors.worst), percent_text(one.within),
                    percent_text(one.errors.ordered)});
  out += core::aligned(rows, {false, true, true, true, true, true, true}) + ran_out_text(t) +
         wrongly_refused_text(t, priced);
  for (const auto& one : all) {
    out += fmt::format("\n{}: the constants that matter most, and by how many % 1 % more of each changes it: {}\n",
                       name_of(one.of), influences_text(one.influences));
    std::vector<std::vector<std::string>> worst = {{"line", "measured", "predicted", "error", "of which"}};
    for (const size_t i : worst_rows(t, priced, one)) {
      const auto& s = t.read.samples[i];
      worst.push_back({fmt::to_string(s.line), value_text(s.of, s.measured), value_text(s.of, priced[i].predicted),
                       percent_text(error_percent(s, priced[i])), parts_text(t, s, priced[i].predicted)});
    }
    out += core::aligned(worst, {true, true, true, true, false});
  }
  return out;
}

std::string simulated_json(const measured_table& t, const std::vector<priced_sample>& priced) {
  json by = json::array(), quantities = json::array(), samples = json::array();
  for (const auto& s : t.stacks)
    by.push_back({{"name", s.name}, {"software", s.software}, {"card", s.on.name}, {"inherits", s.inherited_from}});
  for (const auto& one : quantities_of(t, priced)) {
    json lines = json::array();
    for (const size_t i : worst_rows(t, priced, one)) lines.push_back(t.read.samples[i].line);
    quantities.push_back({{"quantity", name_of(one.of)},
                          {"rows", one.errors.rows},
                          {"mean_percent", one.errors.mean},
                          {"median_percent", one.errors.median},
                          {"worst_percent", one.errors.worst},
                          {"in_interval_percent", number_json(one.within)},
                          {"pairs_in_order_percent", number_json(one.errors.ordered)},
                          {"matter_most", influences_json(one.influences)},
                          {"worst_lines", lines}});
  }
  for (size_t i = 0; i < priced.size(); ++i) samples.push_back(sample_json(t, t.read.samples[i], priced[i]));
  return json{{"format", "troupe simulate"}, {"version", 1},   {"table", t.file},          {"form", t.form},
              {"rows", t.read.rows},         {"hardware", by}, {"quantities", quantities}, {"samples", samples}}
             .dump(2, ' ', false, json::error_handler_t::replace) +
         "\n";
}

std::string simulated_csv(const measured_table& t, const std::vector<priced_sample>& priced) {
  const auto names = part_names(t);
  std::string out = "line,quantity,unit,hardware,measured,predicted,low,high,error_percent,memory,matter_most";
  for (const auto name : names) out.append(",").append(name);
  out += "\n";
  const auto number = [](double x) { return std::isfinite(x) ? fmt::format("{:.9g}", x) : std::string(); };
  for (size_t i = 0; i < priced.size(); ++i) {
    const auto& s = t.read.samples[i];
    const auto& p = priced[i];
    std::vector<std::string> most;
    for (const auto& one : influences_on(t, s, hardware::named_influences))
      most.push_back(fmt::format("{} {:.3f}", one.constant, one.percent));
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{}", s.line, name_of(s.of), unit_of(s.of),
                       hardware::csv_cell(stack_of(t, s).name), s.ran_out ? "oom" : number(s.measured),
                       number(p.predicted), number(p.low()), number(p.high()),
                       s.ran_out ? "" : number(error_percent(s, p)), fit_of(t, s), fmt::join(most, "; "));
    const auto parts = parts_of(t, s);
    for (const auto name : names) {
      const auto at = std::ranges::find(parts, name, &hardware::price_part::name);
      out += "," + (at == parts.end() ? std::string() : number(at->value));
    }
    out += "\n";
  }
  return out;
}

}  // namespace troupe::apps
