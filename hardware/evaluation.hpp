// Compares predictions with measured values: errors of a table, intervals, and pairs of rows in the right order.
#pragma once

#include <span>
#include <vector>

#include "hardware/stack.hpp"
#include "hardware/table.hpp"

namespace troupe::hardware {

/// A sample's prediction. The interval is [predicted / factor, predicted x factor].
struct priced_sample {
  double predicted = 0;
  double factor = absent;  ///< 80 % of such rows lie within it; absent: nothing was measured on this card and stack

  [[nodiscard]] double low() const { return predicted / factor; }
  [[nodiscard]] double high() const { return predicted * factor; }
  /// True if the value lies in the interval; false if there is none.
  [[nodiscard]] bool holds(double value) const { return value >= low() && value <= high(); }
};

/// Returns the factor of a shape's interval: the one of fitted shapes if its group was fitted, else the other.
double interval_factor(const quantity_model& model, const shape& what);

/// Prices samples that read_samples() returned for these stacks, in their order.
std::vector<priced_sample> price_samples(std::span<const sample> samples, std::span<const stack> stacks);

/// Errors of predictions, in percent of the measured values.
struct error_summary {
  size_t rows = 0;
  double mean = 0, median = 0, worst = 0;
  double ordered =
      absent;  ///< percent of pairs of rows, more than 10 % apart, whose faster one is named; absent: no pair
};
error_summary errors_of(std::span<const double> predicted, std::span<const double> measured);

/// Returns the value below which a share of all values lies, interpolated linearly; `values` is not empty.
double quantile(std::vector<double> values, double share);
/// Returns the factor within which 80 % of the measured values are of their predictions.
double factor_of_80_percent(std::span<const double> predicted, std::span<const double> measured);

/// How a peak of memory fits a card.
enum class fit_of_memory : unsigned char {
  fits,
  close,    ///< the upper end of the interval exceeds the card
  exceeds,  ///< the prediction exceeds the card
};
fit_of_memory fit_in(const card& on, const priced_sample& peak);

}  // namespace troupe::hardware
