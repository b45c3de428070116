// Describes the measured constants (machine_costs of cost.hpp) by which an instruction's time is a sum of terms: their
// names, units and meanings, the time of one matrix product, and how a product's constants follow from measured
// products. Measures nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "plan/choose/cost.hpp"

namespace troupe::plan {

/// One constant: name and unit as files spell them, and the field with its value.
struct machine_constant {
  std::string_view name, unit, meaning;
  double machine_costs::*field;
  bool divides;  ///< true for a rate, which is above 0; other constants may be 0
};

/// Returns the constants in the order of files.
std::span<const machine_constant> machine_constants();

/// Sizes of a matrix product: m x k by k x n.
struct product_size {
  uint64_t m = 0, n = 0, k = 0;
  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  bool operator==(const product_size&) const = default;
};

/// Returns the seconds of one product: 2 ((m + fill_m) (n + fill_n) + lost) (k + fill_k) / product_flops_per_s. The
/// constants `fill` are what a library spends on the edges of tiles, on packing its factors and on writing the result,
/// expressed in rows, columns and summands; `lost` is the partly filled last wave of tiles of a card.
double product_seconds(const machine_costs& costs, const product_size& size);

/// Four measured products from which the four constants of products follow: one of large sizes, and three that have one
/// size smaller and the other sizes equal.
struct measured_products {
  product_size large;
  double large_s = 0;
  uint64_t small_m = 0, small_n = 0, small_k = 0;  ///< sizes of the smaller products in their small dimension
  double small_m_s = 0, small_n_s = 0, small_k_s = 0;
};

/// Sets the constants of products so that product_seconds() returns the four measured times. A smaller product that
/// took less than its share of the large one has no fill; one that took as long as the large one has as much fill as
/// the large size. Requires times above 0 and small sizes below the large ones.
void fit_products(const measured_products& measured, machine_costs& costs);

}  // namespace troupe::plan
