// Dropout whose masks are functions of names (seed, step, sample, layer) and of an element's position (random.hpp): a
// mask is computed whenever it is needed, in forward and backward, and never stored. Owns applying masks; leaves the
// meaning of the names to the layers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Names one dropout of one layer and sample, with the arguments of dropout_mask() in random.hpp; the same names give
/// the same mask.
struct dropout_key {
  float probability = 0;  ///< probability that an element is dropped; 0: nothing is dropped
  uint64_t seed = 0, step = 0, sample = 0;
  uint32_t layer = 0, site = 0;

  [[nodiscard]] bool active() const { return probability > 0; }
  /// Returns the factor on elements that dropout keeps: 1 / (1 - probability).
  [[nodiscard]] double factor() const { return 1.0 / (1.0 - static_cast<double>(probability)); }
};

/// Applies dropout in place to `count` elements of `type` at `x`, whose positions start at `first_position`: multiplies
/// kept elements by key.factor(), sets the others to 0; in fp32 (fp64 for f64), rounded once.
void drop(std::byte* x, core::dtype type, uint64_t count, const dropout_key& key, uint64_t first_position);

/// Sets keep[i] to 1 if dropout keeps the element at position first_position + i, else to 0, for `count` positions.
void draw(uint8_t* keep, uint64_t count, const dropout_key& key, uint64_t first_position);

}  // namespace troupe::kernels
