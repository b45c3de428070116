#include "core/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::core {

std::string range_text(std::string_view thing, uint64_t first, uint64_t count) {
  if (count == 1) return fmt::format("{} {}", thing, first);
  return fmt::format("{}s {} to {}", thing, first, first + count - 1);
}

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

}  // namespace troupe::core
