#include "job/predicted_interval.hpp"

#include <algorithm>
#include <cmath>

#include "plan/choose/machine_costs.hpp"

namespace troupe::job {
namespace {

/// Returns the standard deviation of log(value) of a constant whose middle half is from `lower` to `upper`.
double log_sigma(double lower, double upper) {
  constexpr double quartile = 0.6745;  // standard deviations from the median to a quartile
  return lower > 0 && upper > lower ? std::log(upper / lower) / (2 * quartile) : 0;
}

}  // namespace

predicted_interval interval_of(const std::function<double(const plan::cost_model&)>& step_s,
                               const plan::cost_model& costs, const costs_of_type& spread) {
  constexpr double more = 1.01, of_80_percent = 1.2816;  // standard deviations that hold 80 % around the median
  const double predicted_s = step_s(costs);
  predicted_interval out;
  double variance = model_log_sigma * model_log_sigma;
  for (const auto& c : plan::machine_constants()) {
    plan::machine_costs changed = costs.machine;
    if (changed.*c.field == 0) continue;
    changed.*c.field *= more;
    const double slope = std::log(step_s(plan::measured_model(changed, costs)) / predicted_s) / std::log(more);
    const double sigma = slope * log_sigma(spread.lower.*c.field, spread.upper.*c.field);
    variance += sigma * sigma;
    out.matter_most.push_back({c.name, 100 * (std::pow(more, slope) - 1)});
  }
  const double factor = std::exp(of_80_percent * std::sqrt(variance));
  out.low_s = predicted_s / factor;
  out.high_s = predicted_s * factor;
  std::ranges::stable_sort(out.matter_most, std::ranges::greater{},
                           [](const constant_influence& x) { return std::abs(x.percent); });
  if (out.matter_most.size() > named_constants) out.matter_most.resize(named_constants);
  return out;
}

}  // namespace troupe::job
