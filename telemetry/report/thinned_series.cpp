#include "telemetry/report/thinned_series.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::telemetry {
namespace {

void join(series_bin& into, const series_bin& next) {
  into.last_x = next.last_x;
  if (next.least < into.least) {
    into.least = next.least;
    into.least_x = next.least_x;
  }
  if (next.greatest > into.greatest) {
    into.greatest = next.greatest;
    into.greatest_x = next.greatest_x;
  }
  into.sum += next.sum;
  into.count += next.count;
}

}  // namespace

void thinned_series::add(double x, double y) {
  if (!std::isfinite(y)) {
    ++num_not_finite_;
    return;
  }
  ++num_values_;
  last_ = y;
  const series_bin one{x, x, y, x, y, x, y, 1};
  if (!bins_.empty() && bins_.back().count < values_per_bin_) {
    join(bins_.back(), one);
    return;
  }
  if (bins_.size() == series_bins_limit) {
    for (size_t i = 0; i < bins_.size() / 2; ++i) {
      join(bins_[2 * i], bins_[2 * i + 1]);
      bins_[i] = bins_[2 * i];
    }
    bins_.resize(bins_.size() / 2);
    values_per_bin_ *= 2;
  }
  bins_.push_back(one);
}

void thinned_series::cut(double x) {
  std::erase_if(bins_, [x](const series_bin& b) { return b.first_x > x; });
  if (bins_.empty()) return;
  auto& b = bins_.back();
  for (double* at : {&b.last_x, &b.least_x, &b.greatest_x}) *at = std::min(*at, x);
  last_ = b.mean();
}

}  // namespace troupe::telemetry
