// Writes a stack as the YAML file from which read_hardware() reads it again.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "core/text.hpp"
#include "hardware/calibration.hpp"

namespace troupe::hardware {
namespace {

void write_rate(std::string& out, const given_rate& r) {
  out += fmt::format("  {}: {{value: {}, unit: {},\n    meaning: {},\n    source: {}}}\n", r.row->name,
                     core::number_text(r.value), core::yaml_quoted(r.row->unit), core::yaml_quoted(r.meaning),
                     core::yaml_quoted(r.source));
}

void write_constant(std::string& out, const given_constant& c) {
  out += fmt::format("    {}: {{value: {}, unit: {},", c.row->name, core::number_text(c.value),
                     core::yaml_quoted(c.row->unit));
  if (c.is_fitted())
    out += fmt::format(" expected: {}, log_sigma: {},", core::number_text(c.expected), core::number_text(c.log_sigma));
  out += fmt::format("\n      meaning: {},\n      source: {}}}\n", core::yaml_quoted(c.meaning),
                     core::yaml_quoted(c.source));
}

/// Writes a list over several lines of at most about a hundred columns.
void write_list(std::string& out, std::string_view key, const std::vector<std::string>& items) {
  constexpr size_t columns = 100;
  std::string line = fmt::format("  {}: [", key);
  for (size_t i = 0; i < items.size(); ++i) {
    if (line.size() > columns) {
      out += line + "\n";
      line = "    ";
    }
    line += core::yaml_quoted(items[i]) + (i + 1 < items.size() ? ", " : "");
  }
  out += line + "]\n";
}

}  // namespace

std::string stack_text(const stack& of) {
  std::string out = "kind: stack\n";
  out += fmt::format("software: {}\ncard: {}\n", core::yaml_quoted(of.software), core::yaml_quoted(of.card_name));
  std::vector<std::string> tables;
  for (const auto& table : of.tables) tables.push_back(core::yaml_quoted(table));
  out += fmt::format("tables: [{}]\n", fmt::join(tables, ", "));
  if (of.recompute >= 0)
    out += fmt::format("runs: {{recompute: {}, source: {}}}\n", of.recompute, core::yaml_quoted(of.recompute_source));
  if (!of.fitted_from.empty()) {
    std::vector<std::string> ranges;
    for (const auto& one : of.fitted_from)
      ranges.push_back(
          fmt::format("{}: [{}, {}]", one.size, core::number_text(one.least), core::number_text(one.most)));
    out += fmt::format("fitted_from: {{{}}}\n", fmt::join(ranges, ", "));
  }
  if (!of.rates.empty()) out += "card_constants:\n";
  for (const auto& rate : of.rates) write_rate(out, rate);
  for (const auto& model : of.models) {
    out += fmt::format("{}:\n", name_of(model.of));
    if (!std::isnan(model.fitted_factor))
      out += fmt::format("  interval: {{fitted_shapes: {}, other_shapes: {}}}\n",
                         core::number_text(model.fitted_factor), core::number_text(model.other_factor));
    if (!model.groups.empty()) write_list(out, "shapes", model.groups);
    out += fmt::format("  residual_scale: {}\n  constants:\n", core::number_text(model.residual_scale));
    for (const auto& c : model.given) write_constant(out, c);
  }
  return out;
}

}  // namespace troupe::hardware
