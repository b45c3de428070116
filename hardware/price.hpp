// Prices any shape: picks the formula of the quantity, names its parts, and says which constants a price depends on
// most.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "hardware/constants.hpp"
#include "hardware/workload.hpp"

namespace troupe::hardware {

/// Part of a price, in the unit of its quantity.
struct price_part {
  std::string_view name;  ///< with its unit: "compute_s"
  double value = 0;
};

/// Refuses a shape for whose price a constant of the stack or a rate of the card is absent.
core::result<void> needs_of(quantity q, const shape& of, const card& on, const constants& c);
/// Returns the price of a shape in the unit of its quantity, after needs_of() has accepted it. The shape must be of the
/// quantity's type.
double price_of(quantity q, const shape& of, const card& on, const constants& c);
/// Returns the parts of a price, which add up to it.
std::vector<price_part> parts_of(quantity q, const shape& of, const card& on, const constants& c);

/// A constant, and by how many percent the price grows if the constant grows by 1 %.
struct influence {
  std::string_view constant;
  double percent = 0;
};
/// Returns the constants of a stack that have an influence on a price, in falling order of its absolute value; `most`
/// of them at most.
std::vector<influence> influences_of(quantity q, const shape& of, const card& on, const constants& c, size_t most);
/// Number of constants that a prediction names.
inline constexpr size_t named_influences = 3;

/// Returns the text that shapes share whose constants are fitted together: "8192x80" (hidden x layers) of a step,
/// "128x4096x8192" of a product, the number of heads of an attention kernel, of ranks of an all-reduce.
std::string group_of(const shape& s);

}  // namespace troupe::hardware
