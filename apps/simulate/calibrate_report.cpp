#include "apps/simulate/calibrate_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/simulate/simulate_report.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

using ordered = nlohmann::ordered_json;
using hardware::calibration;

const hardware::sample& sample_of(const measured_table& t, const calibration& c, size_t i) {
  return t.read.samples[c.samples[i]];
}

double percent_off(double predicted, double measured) { return 100 * (predicted / measured - 1); }

/// Returns the constant of the stack before the fit.
const hardware::given_constant& before(const measured_table& t, const calibration& c,
                                       const hardware::given_constant& after) {
  const auto& given = t.stacks.front().find(c.model.of)->given;
  return *std::ranges::find(given, after.row, &hardware::given_constant::row);
}

std::string constants_text(const measured_table& t, const calibration& c) {
  std::vector<std::vector<std::string>> rows = {{"constant", "before", "fitted", "expected", "unit"}};
  for (const auto& one : c.model.given)
    if (one.is_fitted())
      rows.push_back({std::string(one.row->name), fmt::format("{:.5g}", before(t, c, one).value),
                      fmt::format("{:.5g}", one.value), fmt::format("{:.5g}", one.expected),
                      std::string(one.row->unit)});
  return core::aligned(rows, {false, true, true, true, false});
}

std::vector<std::string> summary_row(const std::string& name, const hardware::error_summary& e) {
  return {name,
          fmt::to_string(e.rows),
          percent_text(e.mean),
          percent_text(e.median),
          percent_text(e.worst),
          percent_text(e.ordered)};
}

/// Returns the errors of each group, by constants that saw it and by constants that did not.
std::string groups_text(const measured_table& t, const calibration& c) {
  std::vector<std::string> names = c.groups;
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<std::vector<std::string>> rows = {{c.left_out_by, "rows", "fitted", "left out"}};
  for (const auto& name : names) {
    std::vector<double> measured, seen, unseen;
    for (size_t i = 0; i < c.groups.size(); ++i) {
      if (c.groups[i] != name) continue;
      measured.push_back(sample_of(t, c, i).measured);
      seen.push_back(c.predicted[i]);
      unseen.push_back(c.left_out[i]);
    }
    rows.push_back({name, fmt::to_string(measured.size()), percent_text(hardware::errors_of(seen, measured).mean),
                    percent_text(hardware::errors_of(unseen, measured).mean)});
  }
  return core::aligned(rows, {false, true, true, true});
}

std::string residuals_text(const measured_table& t, const calibration& c) {
  std::vector<size_t> order(c.samples.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) {
    return std::abs(percent_off(c.predicted[i], sample_of(t, c, i).measured));
  });
  order.resize(std::min(order.size(), most_worst_rows));
  std::vector<std::vector<std::string>> rows = {{"line", "measured", "fitted", "error"}};
  if (!c.left_out.empty()) rows[0].insert(rows[0].end(), {"left out", "error"});
  for (const size_t i : order) {
    const auto& s = sample_of(t, c, i);
    std::vector<std::string> row{fmt::to_string(s.line), value_text(s.of, s.measured), value_text(s.of, c.predicted[i]),
                                 percent_text(percent_off(c.predicted[i], s.measured))};
    if (!c.left_out.empty()) {
      row.push_back(value_text(s.of, c.left_out[i]));
      row.push_back(percent_text(percent_off(c.left_out[i], s.measured)));
    }
    rows.push_back(std::move(row));
  }
  return core::aligned(rows, std::vector<bool>(rows[0].size(), true));
}

ordered summary_json(const hardware::error_summary& e) {
  return {{"rows", e.rows}, {"mean_percent", e.mean}, {"median_percent", e.median}, {"worst_percent", e.worst}};
}

}  // namespace

std::string calibrated_text(const measured_table& t, const std::vector<calibration>& all) {
  const auto& by = t.stacks.front();
  std::string out;
  for (const auto& c : all) {
    const auto free = std::ranges::count_if(c.model.given, &hardware::given_constant::is_fitted);
    out += fmt::format("{}{}: {} constants of {} fitted to {} rows of {}", out.empty() ? "" : "\n", name_of(c.model.of),
                       free, by.name, c.samples.size(), core::printable_line(t.file));
    out += t.read.left_out > 0 ? fmt::format("; {} rows of other cards are left out\n", t.read.left_out) : "\n";
    out += constants_text(t, c) + "\n";
    std::vector<std::vector<std::string>> rows = {{"", "rows", "mean", "median", "worst", "pairs in order"}};
    rows.push_back(summary_row("fitted", c.given));
    if (!c.left_out.empty()) rows.push_back(summary_row("left out by " + c.left_out_by, c.unseen));
    out += core::aligned(rows, {false, true, true, true, true, true});
    out += c.left_out.empty() ? "all rows have one shape and one set of degrees: nothing could be left out\n\n"
                              : "\n" + groups_text(t, c) + "\n";
    out += fmt::format("80 % of rows lie within a factor of {:.3f} for fitted shapes, {:.3f} for others\n",
                       c.model.fitted_factor, c.model.other_factor);
    out += "largest residuals:\n" + residuals_text(t, c);
  }
  return out;
}

std::string calibrated_json(const measured_table& t, const std::vector<calibration>& all) {
  ordered quantities = ordered::array();
  for (const auto& c : all) {
    ordered constants = ordered::array(), rows = ordered::array();
    for (const auto& one : c.model.given)
      if (one.is_fitted())
        constants.push_back({{"name", one.row->name},
                             {"unit", one.row->unit},
                             {"before", before(t, c, one).value},
                             {"fitted", one.value},
                             {"expected", one.expected},
                             {"log_sigma", one.log_sigma}});
    for (size_t i = 0; i < c.samples.size(); ++i) {
      const auto& s = sample_of(t, c, i);
      ordered row{{"line", s.line}, {"measured", s.measured}, {"fitted", c.predicted[i]}};
      if (!c.left_out.empty()) {
        row["left_out"] = c.left_out[i];
        row["group"] = c.groups[i];
      }
      rows.push_back(std::move(row));
    }
    ordered one{{"quantity", name_of(c.model.of)}, {"constants", constants}, {"fitted", summary_json(c.given)}};
    if (!c.left_out.empty()) {
      one["left_out_by"] = c.left_out_by;
      one["left_out"] = summary_json(c.unseen);
    }
    one["interval"] = {{"fitted_shapes", c.model.fitted_factor}, {"other_shapes", c.model.other_factor}};
    one["rows"] = rows;
    quantities.push_back(std::move(one));
  }
  return ordered{{"format", "troupe calibrate"},
                 {"version", 1},
                 {"table", t.file},
                 {"form", t.form},
                 {"hardware", t.stacks.front().name},
                 {"rows_of_other_cards", t.read.left_out},
                 {"quantities", quantities}}
             .dump(2, ' ', false, ordered::error_handler_t::replace) +
         "\n";
}

}  // namespace troupe::apps
