// Computes the mean of a figure over the steps of a run, one step at a time.
#pragma once

#include <concepts>
#include <cstdint>

namespace troupe::telemetry {

/// Updates `mean`, the mean of `steps - 1` values, to the mean of `steps` values with the newest value `x`. Integer
/// means lose their fraction.
template <class T>
requires std::integral<T> || std::floating_point<T>
void take_mean(T& mean, T x, uint64_t steps) {
  mean = static_cast<T>(double(mean) + (double(x) - double(mean)) / double(steps));
}

}  // namespace troupe::telemetry
