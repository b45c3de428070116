// Sizes of the blocks of causal_attention, and the offsets of its parts in the scratch memory that the caller provides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/math.hpp"
#include "kernels/layers/causal_attention.hpp"

namespace troupe::kernels {

/// Queries of one block: enough that keys and values are read seldom, few enough that the block's weights stay in the
/// cache.
inline constexpr uint64_t block_queries = 48;

/// Keys of a transposed panel; a multiple of every target's tile.
inline constexpr uint64_t panel_keys = 64;

/// Elements of the widest vector: rows of scratch have a multiple of these.
inline constexpr uint64_t row_grain = 16;

inline constexpr uint64_t cache_line_bytes = 64;

/// Divides scratch memory into parts, in order; without memory it only counts the needed elements.
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
  /// Returns the elements allocated so far, plus the most that alignment may skip.
  [[nodiscard]] uint64_t taken() const { return taken_ + cache_line_bytes / sizeof(float); }

 private:
  float* base_ = nullptr;
  uint64_t taken_ = 0;
};

/// Elements of a row of scratch: of a head's columns, and of a block's weights. The row of weights is not a power of
/// two long, which would crowd a few lines of the cache.
struct row_widths {
  uint64_t head, weights;
  explicit row_widths(const attention_sizes& s)
      : head(core::round_up(s.head_width, row_grain)), weights(core::round_up(s.tokens, panel_keys) + row_grain) {}
};

/// Scratch of the forward pass. Transposed keys are stored in panels of `panel_keys`, each (head_width, panel_keys).
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

/// Scratch of the backward pass: the parts of the forward pass, whose `values` hold keys by rows, and the parts for
/// gradients.
struct backward_scratch : forward_scratch {
  float *turned_values, *gradients, *weight_gradients, *key_gradients, *value_gradients;

  backward_scratch(const attention_sizes& s, scratch_parts& parts) : forward_scratch(s, parts) {
    const row_widths w(s);
    turned_values = parts.take(s.head_width * core::round_up(s.tokens, panel_keys));
    gradients = parts.take(block_queries * w.head);
    weight_gradients = parts.take(block_queries * w.weights);
    key_gradients = parts.take(s.tokens * w.head);
    value_gradients = parts.take(s.tokens * w.head);
  }
};

}  // namespace troupe::kernels
