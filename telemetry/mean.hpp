// The mean of a figure over the steps of a run, brought up to date step by step.
#pragma once

#include <concepts>
#include <cstdint>

namespace troupe::telemetry {

/// `mean` is that of `steps - 1` values before and of `steps` after; `x` is the newest. Integers lose their fraction.
template <class T>
requires std::integral<T> || std::floating_point<T>
void take_mean(T& mean, T x, uint64_t steps) {
  mean = static_cast<T>(double(mean) + (double(x) - double(mean)) / double(steps));
}

}  // namespace troupe::telemetry
