#include "hardware/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <variant>

#include "hardware/least_squares.hpp"
#include "hardware/price.hpp"

namespace troupe::hardware {
namespace {

using sample_list = std::vector<const sample*>;

/// Logarithm by which a fitted constant may differ from its expectation.
constexpr double farthest = 4;
/// Parts into which the shapes of products are divided for leaving out; there is a shape for nearly every row.
constexpr size_t parts_of_products = 10;

/// Returns the square root of the soft-l1 loss of a residual, with its sign: its square grows linearly beyond `scale`.
double softened(double residual, double scale) {
  const double z = residual / scale;
  return std::copysign(std::sqrt(2 * (std::sqrt(1 + z * z) - 1)), z);
}

bounded_variable variable_of(const given_constant& c) {
  const double start = std::log(c.expected);
  double low = start - farthest, high = start + farthest;
  if (c.row->least > 0) low = std::min(std::max(low, std::log(c.row->least)), start - 1e-3);
  if (c.row->most < std::numeric_limits<double>::max()) high = std::min(high, std::log(c.row->most));
  return {start, low, high};
}

/// Returns the model with the constants that fit the samples best.
quantity_model fitted(const quantity_model& model, const card& on, const sample_list& to) {
  std::vector<size_t> free;  // indices of the constants that are fitted
  std::vector<bounded_variable> variables;
  for (size_t i = 0; i < model.given.size(); ++i)
    if (model.given[i].is_fitted()) {
      free.push_back(i);
      variables.push_back(variable_of(model.given[i]));
    }
  const auto x = least_squares(variables, [&](const std::vector<double>& at) {
    constants c = model.values;
    for (size_t i = 0; i < free.size(); ++i) c.*model.given[free[i]].row->field = std::exp(at[i]);
    std::vector<double> out;
    out.reserve(to.size() + free.size());
    for (const sample* one : to)
      out.push_back(softened(std::log(price_of(model.of, one->what, on, c) / one->measured), model.residual_scale));
    for (size_t i = 0; i < free.size(); ++i)
      out.push_back((at[i] - variables[i].start) / model.given[free[i]].log_sigma);
    return out;
  });
  quantity_model out = model;
  for (size_t i = 0; i < free.size(); ++i) {
    auto constant = model.given[free[i]];
    constant.value = std::exp(x[i]);
    out.put(constant);
  }
  return out;
}

std::string degrees_of(const shape& s) {
  const auto* const w = std::get_if<workload>(&s);
  return w == nullptr ? "" : fmt::format("{:g}x{:g}x{:g}", w->tensor, w->pipeline, w->context);
}

/// Groups of samples that are left out together, and what the samples of a group share.
struct grouping {
  std::string by;
  std::vector<std::string> of;  ///< one for each sample
};

size_t distinct(const std::vector<std::string>& names) {
  auto sorted = names;
  std::ranges::sort(sorted);
  return static_cast<size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
}

grouping groups_of(quantity q, const sample_list& all) {
  grouping out;
  for (const sample* one : all) out.of.push_back(group_of(one->what));
  switch (q) {
    case quantity::step:
    case quantity::memory:
      out.by = "hidden x layers";
      break;
    case quantity::attention:
      out.by = "heads";
      break;
    case quantity::all_reduce:
      out.by = "ranks";
      break;
    case quantity::product: {
      out.by = "tenth of shapes";
      std::map<std::string, std::string> part;
      for (const auto& name : out.of) part[name];
      size_t next = 0;
      for (auto& [name, number] : part) number = fmt::to_string(next++ % parts_of_products);
      for (auto& name : out.of) name = part[name];
    }
  }
  if (distinct(out.of) == 1) {
    out.by = "degrees";
    for (size_t i = 0; i < all.size(); ++i) out.of[i] = degrees_of(all[i]->what);
  }
  if (distinct(out.of) == 1) out = {};
  return out;
}

std::vector<double> prices(const quantity_model& model, const card& on, const sample_list& of) {
  std::vector<double> out;
  for (const sample* one : of) out.push_back(price_of(model.of, one->what, on, model.values));
  return out;
}

/// Returns the predictions by constants that were fitted without the group of each sample.
std::vector<double> left_out_prices(const quantity_model& model, const card& on, const sample_list& all,
                                    const grouping& groups) {
  std::vector<double> out(all.size());
  auto names = groups.of;
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const auto& name : names) {
    sample_list seen;
    for (size_t i = 0; i < all.size(); ++i)
      if (groups.of[i] != name) seen.push_back(all[i]);
    const auto without = fitted(model, on, seen);
    for (size_t i = 0; i < all.size(); ++i)
      if (groups.of[i] == name) out[i] = price_of(model.of, all[i]->what, on, without.values);
  }
  return out;
}

std::vector<std::string> sorted_groups(const sample_list& all) {
  std::vector<std::string> out;
  for (const sample* one : all) out.push_back(group_of(one->what));
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

calibration calibrate_one(const quantity_model& model, const card& on, std::span<const sample> samples) {
  calibration out;
  sample_list all;
  std::vector<double> measured;
  for (size_t i = 0; i < samples.size(); ++i)
    if (samples[i].of == model.of && !samples[i].ran_out) {
      out.samples.push_back(i);
      all.push_back(&samples[i]);
      measured.push_back(samples[i].measured);
    }
  out.model = fitted(model, on, all);
  out.predicted = prices(out.model, on, all);
  out.given = errors_of(out.predicted, measured);
  out.model.groups = sorted_groups(all);
  out.model.fitted_factor = out.model.other_factor = factor_of_80_percent(out.predicted, measured);
  const auto groups = groups_of(model.of, all);
  if (groups.of.empty()) return out;
  out.left_out_by = groups.by;
  out.groups = groups.of;
  out.left_out = left_out_prices(model, on, all, groups);
  out.unseen = errors_of(out.left_out, measured);
  out.model.other_factor = std::max(out.model.fitted_factor, factor_of_80_percent(out.left_out, measured));
  return out;
}

}  // namespace

core::result<std::vector<calibration>> calibrate(const stack& by, std::span<const sample> samples) {
  std::vector<calibration> out;
  for (const auto& model : by.models) {
    const auto is_of = [&](const sample& s) { return s.of == model.of && !s.ran_out; };
    if (std::ranges::none_of(samples, is_of)) continue;
    const auto free = static_cast<size_t>(std::ranges::count_if(model.given, &given_constant::is_fitted));
    if (free == 0 || free > most_fitted)
      return core::refused(fmt::format("{}: {}.constants: wanted 1 to {} constants with an expectation, got {}",
                                       by.file, name_of(model.of), most_fitted, free));
    out.push_back(calibrate_one(model, by.on, samples));
  }
  if (out.empty()) return core::refused("the table measures nothing that the stack has constants for");
  return out;
}

std::vector<fitted_range> fitted_ranges_of(std::span<const sample> samples) {
  std::vector<fitted_range> out;
  for (const auto& one : samples) {
    const auto* const w = std::get_if<workload>(&one.what);
    if (w == nullptr) continue;
    const double values[] = {w->hidden, w->layers, w->tensor * w->pipeline * w->data * w->context};
    static_assert(std::size(values) == std::size(fitted_sizes));
    const bool is_first = out.empty();
    for (size_t i = 0; i < std::size(values); ++i) {
      if (is_first) out.push_back({.size = std::string(fitted_sizes[i]), .least = values[i], .most = values[i]});
      out[i].least = std::min(out[i].least, values[i]);
      out[i].most = std::max(out[i].most, values[i]);
    }
  }
  return out;
}

stack calibrated(stack by, std::span<const calibration> all, const std::string& source) {
  for (const auto& one : all)
    for (auto& model : by.models)
      if (model.of == one.model.of) model = one.model;
  for (const auto& one : all)
    for (auto& model : by.models)
      for (auto& constant : model.given)
        if (model.of == one.model.of && constant.is_fitted()) constant.source = source;
  return by;
}

}  // namespace troupe::hardware
