// Block sizes of causal_attention, and the offsets of its arrays in the scratch memory that the caller provides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/math.hpp"
#include "kernels/layers/causal_attention.hpp"

namespace troupe::kernels {

/// Number of queries that are processed together: enough that keys and values are read seldom, few enough that their
/// attention weights stay in the cache.
inline constexpr uint64_t block_queries = 48;

/// Number of keys in a transposed panel; a multiple of the tile width of every SIMD target.
inline constexpr uint64_t panel_keys = 64;

/// Number of fp32 elements of the widest vector of any target: rows in scratch memory are padded to a multiple of this
/// number.
inline constexpr uint64_t row_grain = 16;

inline constexpr uint64_t cache_line_bytes = 64;

/// Divides scratch memory into arrays, one after another. Constructed without memory, it only counts the elements that
/// the arrays need.
class scratch_parts {
 public:
  explicit scratch_parts(std::span<float> scratch) {
    void* start = scratch.data();
    size_t bytes = scratch.size_bytes();
    if (start != nullptr) base_ = static_cast<float*>(std::align(cache_line_bytes, sizeof(float), start, bytes));
  }
  float* take(uint64_t elements) {
    const uint64_t first = taken_;
    taken_ += core::round_up(elements, row_grain);
    return base_ != nullptr ? base_ + first : nullptr;
  }
  /// Returns how many elements have been allocated so far, plus the most that aligning the first array may skip.
  [[nodiscard]] uint64_t taken() const { return taken_ + cache_line_bytes / sizeof(float); }

 private:
  float* base_ = nullptr;
  uint64_t taken_ = 0;
};

/// Lengths of rows in scratch memory: `head` for the elements of one head, `weights` for the attention weights of a
/// query. `weights` is padded so that it is not a power of two, because rows a power of two apart would compete for
/// the same cache lines.
struct row_widths {
  uint64_t head, weights;
  explicit row_widths(const attention_sizes& s)
      : head(core::round_up(s.head_width, row_grain)), weights(core::round_up(s.tokens, panel_keys) + row_grain) {}
};

/// Scratch memory of the forward pass. Keys are stored transposed, in panels of `panel_keys` keys, each with shape
/// (head_width, panel_keys).
struct forward_scratch {
  float *keys, *values, *queries, *weights, *sums;
  uint8_t* keep;

  forward_scratch(const attention_sizes& s, scratch_parts& parts) {
    const row_widths w(s);
    keys = parts.take(s.head_width * core::round_up(s.tokens, panel_keys));
    values = parts.take(s.tokens * w.head);
    queries = parts.take(block_queries * w.head);
    weights = parts.take(block_queries * w.weights);
    sums = parts.take(block_queries * w.head);
    keep = reinterpret_cast<uint8_t*>(parts.take(core::div_up(w.weights, sizeof(float))));
  }
};

/// Scratch memory of the backward pass: the arrays of the forward pass, whose `values` then holds keys row by row, and
/// arrays for gradients.
struct backward_scratch : forward_scratch {
  float *turned_values, *gradients, *weight_gradients, *key_gradients, *value_gradients;
  float* slopes;  ///< derivatives of the capped scores; null if scores have no cap

  backward_scratch(const attention_sizes& s, scratch_parts& parts) : forward_scratch(s, parts) {
    const row_widths w(s);
    turned_values = parts.take(s.head_width * core::round_up(s.tokens, panel_keys));
    gradients = parts.take(block_queries * w.head);
    weight_gradients = parts.take(block_queries * w.weights);
    key_gradients = parts.take(s.tokens * w.head);
    value_gradients = parts.take(s.tokens * w.head);
    slopes = s.soft_cap > 0 ? parts.take(block_queries * w.weights) : nullptr;
  }
};

}  // namespace troupe::kernels
