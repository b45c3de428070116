// An exponential moving average of weights: how much of the new weights an update adds, and the formula. Leaves where
// averages are stored to its callers.
#pragma once

#include <cstdint>
#include <optional>

#include "core/training_types.hpp"

namespace troupe::kernels {

/// Returns the part of the new weights that the average takes up after update number `update`, counted from 1: up to
/// `start` 1, so that the average is the weights, and then 1 - decay at every `every`-th update. With `warmup`, the
/// n-th change of the average keeps at most (1 + n) / (10 + n) of it, as TensorFlow's ExponentialMovingAverage does.
/// nullopt: the update leaves the average unchanged.
std::optional<double> average_rate(const core::average_options& options, uint64_t update);

/// Changes `count` elements of an average by `rate`, from above 0 to 1: average + rate * (weight - average), or, for a
/// rate of 1, the weight. The rate is rounded once to the elements' type, and every product and sum is rounded by
/// itself, so the bits depend neither on the processor nor on how a parameter is split into pieces.
void add_to_average(float* average, const float* weights, uint64_t count, double rate);
void add_to_average(double* average, const double* weights, uint64_t count, double rate);

/// Scalar implementation of add_to_average, one element at a time, with the same bits; tests compare the SIMD code with
/// it.
void add_to_average_reference(float* average, const float* weights, uint64_t count, double rate);

}  // namespace troupe::kernels
