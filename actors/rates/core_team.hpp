// Repeats an operation on all cores at the same time, as the compute lanes of ranks do, and returns how long each
// repetition took. Owns the threads; leaves the operation to the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/error.hpp"

namespace troupe::actors {

/// Makes the operation that one thread repeats; called on that thread.
using operation_maker = std::function<std::function<void()>()>;

/// Repeats the operation on `threads` threads for `seconds`, at least three times on each, after one repetition that is
/// not timed. ATen computes with one thread on each of them. Returns the seconds of all repetitions of all threads,
/// ascending. Errors (limit): a thread cannot be started, or memory is missing.
core::result<std::vector<double>> repeated_on_cores(uint32_t threads, double seconds, const operation_maker& make);

/// The middle half of repeated measurements.
struct middle_half {
  double lower = 0, median = 0, upper = 0;
};

/// Returns the quartiles of ascending numbers; they must not be empty.
middle_half middle_of(const std::vector<double>& ascending);

}  // namespace troupe::actors
