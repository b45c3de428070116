#include "hardware/evaluation.hpp"

#include <algorithm>
#include <cmath>

#include "hardware/price.hpp"

namespace troupe::hardware {

double interval_factor(const quantity_model& model, const shape& what) {
  const bool is_fitted = std::ranges::find(model.groups, group_of(what)) != model.groups.end();
  return is_fitted ? model.fitted_factor : model.other_factor;
}

std::vector<priced_sample> price_samples(std::span<const sample> samples, std::span<const stack> stacks) {
  std::vector<priced_sample> out;
  out.reserve(samples.size());
  for (const auto& one : samples) {
    const stack& by = stacks[one.stack_index];
    const auto& model = *by.find(one.of);
    out.push_back({price_of(one.of, one.what, by.on, model.values), interval_factor(model, one.what)});
  }
  return out;
}

error_summary errors_of(std::span<const double> predicted, std::span<const double> measured) {
  constexpr double apart = 1.1;
  error_summary out;
  out.rows = measured.size();
  if (measured.empty()) return out;
  std::vector<double> errors;
  for (size_t i = 0; i < measured.size(); ++i) errors.push_back(100 * std::abs(predicted[i] / measured[i] - 1));
  for (const double e : errors) out.mean += e / double(errors.size());
  out.worst = *std::ranges::max_element(errors);
  out.median = quantile(std::move(errors), 0.5);
  double pairs = 0, right = 0;
  for (size_t i = 0; i < measured.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      if (std::max(measured[i], measured[j]) <= apart * std::min(measured[i], measured[j])) continue;
      ++pairs;
      right += (predicted[i] > predicted[j]) == (measured[i] > measured[j]) ? 1 : 0;
    }
  if (pairs > 0) out.ordered = 100 * right / pairs;
  return out;
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double at = share * double(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - double(below)) * (values[above] - values[below]);
}

double factor_of_80_percent(std::span<const double> predicted, std::span<const double> measured) {
  constexpr double inside = 0.8;
  std::vector<double> residuals;
  for (size_t i = 0; i < measured.size(); ++i) residuals.push_back(std::abs(std::log(predicted[i] / measured[i])));
  return std::exp(quantile(std::move(residuals), inside));
}

fit_of_memory fit_in(const card& on, const priced_sample& peak) {
  if (peak.predicted > on.memory_bytes) return fit_of_memory::exceeds;
  return peak.high() > on.memory_bytes ? fit_of_memory::close : fit_of_memory::fits;
}

}  // namespace troupe::hardware
