// Says how far a step that is predicted by the constants of this machine may lie from a run's, and which constants
// decide it. Pure.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "job/kept_costs.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::job {

/// A constant, and by how many percent a step grows if the constant grows by 1 %.
struct constant_influence {
  std::string_view constant;
  double percent = 0;
};

/// The interval in which 80 % of runs are expected, and the constants that matter most, in falling order.
struct predicted_interval {
  double low_s = 0, high_s = 0;
  std::vector<constant_influence> matter_most;
};

/// Number of constants that a prediction names.
inline constexpr size_t named_constants = 3;

/// Standard deviation of log(measured / predicted) where the constants are exact: what the sums of terms leave out.
/// Source: the eight jobs of `make foresight`, whose mean error is 4.0 % (0.8 standard deviations).
inline constexpr double model_log_sigma = 0.05;

/// Returns the interval of a step whose seconds `step_s` computes from costs. Constants are taken for independent and
/// log-normal, with the middle half of their measurements (`spread`) as theirs. `costs`: of measured_model() with the
/// medians.
predicted_interval interval_of(const std::function<double(const plan::cost_model&)>& step_s,
                               const plan::cost_model& costs, const costs_of_type& spread);

}  // namespace troupe::job
