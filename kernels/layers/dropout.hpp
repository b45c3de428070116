// Dropout by name: masks are functions of an element's position (random.hpp), so they are computed when they are needed
// and never stored. Owns applying masks; leaves the meaning of the names to the layers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Names the dropout masks of one site of one sample (random.hpp, dropout_mask).
struct dropout_key {
  float probability = 0;  ///< probability that an element is dropped; 0: nothing is dropped
  uint64_t seed = 0, step = 0, sample = 0;
  uint32_t layer = 0, site = 0;

  [[nodiscard]] bool active() const { return probability > 0; }
  /// Returns the factor on elements that are kept.
  [[nodiscard]] double factor() const { return 1.0 / (1.0 - static_cast<double>(probability)); }
};

/// Multiplies the `count` elements of `type` at `x`, whose positions start at `first_position`, by the factor if they
/// are kept and by 0 otherwise; in fp32 (fp64 for f64), rounded once.
void drop(std::byte* x, core::dtype type, uint64_t count, const dropout_key& key, uint64_t first_position);

/// Sets keep[i] to 1 or 0 for the `count` positions from `first_position` on.
void draw(uint8_t* keep, uint64_t count, const dropout_key& key, uint64_t first_position);

}  // namespace troupe::kernels
