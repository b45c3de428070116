// A tensor as a view of bytes, which folders without Torch pass to one another. Owns no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/dtype.hpp"

namespace troupe::core {

/// Returns the number of elements of a tensor of this shape; 1 for a scalar.
inline uint64_t numel_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1},
                         [](uint64_t n, int64_t d) { return n * static_cast<uint64_t>(d); });
}

/// Contiguous tensor elements in memory that another object owns; this memory must outlive the view.
struct tensor_view {
  std::byte* data = nullptr;
  dtype type = dtype::f32;
  std::vector<int64_t> shape;

  [[nodiscard]] uint64_t numel() const { return numel_of(shape); }
  [[nodiscard]] uint64_t bytes() const { return numel() * size_of(type); }
};

}  // namespace troupe::core
