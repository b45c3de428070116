#include "kernels/causal_attention.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>

#include "core/math.hpp"
#include "kernels/with_dtype.hpp"

// What every target's namespace calls, so it comes before any of them.
#ifndef TROUPE_KERNELS_CAUSAL_ATTENTION_ONCE
#define TROUPE_KERNELS_CAUSAL_ATTENTION_ONCE
namespace troupe::kernels {
namespace {

/// Queries of one block: enough that keys and values are read seldom, few enough that its weights stay in the cache.
constexpr uint64_t block_queries = 48;

/// Keys side by side in a transposed panel; a multiple of every target's tile.
constexpr uint64_t panel_keys = 64;

/// Elements of the widest vector: rows of scratch are multiples of it.
constexpr uint64_t row_grain = 16;

/// Hands out scratch; without any it counts only.
class scratch_parts {
 public:
  explicit scratch_parts(std::span<float> scratch) {
    void* start = scratch.data();
    size_t bytes = scratch.size_bytes();
    if (start != nullptr)
      base_ = static_cast<float*>(std::align(row_grain * sizeof(float), sizeof(float), start, bytes));
  }
  float* take(uint64_t elements) {
    const uint64_t first = taken_;
    taken_ += core::round_up(elements, row_grain);
    return base_ != nullptr ? base_ + first : nullptr;
  }
  /// With what alignment may skip.
  [[nodiscard]] uint64_t taken() const { return taken_ + row_grain; }

 private:
  float* base_ = nullptr;
  uint64_t taken_ = 0;
};

/// Rows of scratch: a head's columns and a block's weights. The latter are no power of two, which would crowd a few
/// lines of the cache.
struct row_widths {
  uint64_t head, weights;
  explicit row_widths(const attention_sizes& s)
      : head(core::round_up(s.head_width, row_grain)), weights(core::round_up(s.tokens, panel_keys) + row_grain) {}
};

/// The scratch of forward. Transposed keys lie in panels of `panel_keys`, each (head_width, panel_keys).
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

/// The scratch of backward: forward's, whose `values` hold keys by rows, and what gradients want.
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

}  // namespace
}  // namespace troupe::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/causal_attention.cpp"
#include <hwy/foreach_target.h>

#include "kernels/product_tile-inl.hpp"
#include "kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

static_assert(block_queries % tile_rows == 0, "the rows of a tile lie in one block");

/// 2^x for x <= 0, to one unit in the last place; 0 below 2^-126, NaN for NaN. The polynomial is the one through the
/// Chebyshev nodes of [-1/2, 1/2].
HWY_INLINE floats<full> exponential2(full d, floats<full> x) {
  const hn::RebindToSigned<full> di;
  const auto n = hn::Round(x);
  const auto r = hn::Sub(x, n);
  auto p = hn::Set(d, 1.5461445e-4F);
  for (const float c : {1.3400428e-3F, 9.618057e-3F, 5.5503272e-2F, 0.24022651F, 0.69314718F, 1.0F})
    p = hn::MulAdd(p, r, hn::Set(d, c));
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0F)), hn::Mul(p, power));
}

/// The `width` elements of each of `count` tokens as fp32 rows times `factor`, filled up with zeros.
template <class T>
void widen_rows(const T* from, size_t stride, size_t count, size_t width, float factor, float* to) {
  const size_t padded = core::round_up(width, row_grain);
  for (size_t i = 0; i < count; ++i, from += stride, to += padded) {
    for_each_vector(width, [&](auto d, uint64_t j)
                               HWY_ATTR { hn::StoreU(hn::Mul(load(d, from + j), hn::Set(d, factor)), d, to + j); });
    std::fill(to + width, to + padded, 0.0F);
  }
}

/// to[k][j] = from[j][k], k < `width`, j < `count`; rows of `to` are panel_keys long.
template <class T>
void turn(const T* from, size_t stride, size_t count, size_t width, float* to) {
  for (size_t j = 0; j < count; ++j)
    for (size_t k = 0; k < width; ++k) to[k * panel_keys + j] = hn::GetLane(load(one_lane(), from + j * stride + k));
}

#if HWY_TARGET != HWY_SCALAR
template <class T>
HWY_INLINE void turn_4_by_4(const T* from, size_t stride, float* to) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto r0 = load(d, from), r1 = load(d, from + stride);
  const auto r2 = load(d, from + 2 * stride), r3 = load(d, from + 3 * stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + panel_keys);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * panel_keys);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * panel_keys);
}
#endif

/// The transpose of `count` tokens' elements in panels; zeros fill the last one.
template <class T>
void turn_rows(const T* from, size_t stride, size_t count, size_t width, float* to) {
  for (size_t first = 0; first < count; first += panel_keys, to += width * panel_keys, from += panel_keys * stride) {
    const size_t keys = std::min<size_t>(panel_keys, count - first);
    if (keys < panel_keys) std::fill_n(to, width * panel_keys, 0.0F);
#if HWY_TARGET == HWY_SCALAR
    turn(from, stride, keys, width, to);
#else
    const size_t whole_keys = keys / 4 * 4, whole_width = width / 4 * 4;
    for (size_t j = 0; j < whole_keys; j += 4)
      for (size_t k = 0; k < whole_width; k += 4) turn_4_by_4(from + j * stride + k, stride, to + k * panel_keys + j);
    turn(from + whole_width, stride, whole_keys, width - whole_width, to + whole_width * panel_keys);
    turn(from + whole_keys * stride, stride, keys - whole_keys, width, to + whole_keys);
#endif
  }
}

/// Rows of fp32 times `factor`, rounded to the tokens' elements.
template <class T>
void narrow_rows(const float* from, size_t count, size_t width, float factor, T* to, size_t stride) {
  const size_t padded = core::round_up(width, row_grain);
  for (size_t i = 0; i < count; ++i, from += padded, to += stride)
    for_each_vector(width, [&](auto d, uint64_t j)
                               HWY_ATTR { store(d, hn::Mul(hn::LoadU(d, from + j), hn::Set(d, factor)), to + j); });
}

/// A block of queries [first, first + count) and what its products share.
struct query_rows {
  const attention_sizes& sizes;
  row_widths widths;
  size_t first, count, lanes;

  query_rows(const attention_sizes& s, size_t first_query)
      : sizes(s),
        widths(s),
        first(first_query),
        count(std::min<size_t>(block_queries, s.tokens - first_query)),
        lanes(hn::Lanes(full())) {}

  /// Keys that the rows of the tile from `row` on see between them.
  [[nodiscard]] size_t seen(size_t row) const { return std::min<size_t>(first + row + tile_rows, sizes.tokens); }

  /// out[row][key] = left[row] . panels[key], for all keys that the row's tile may see.
  void against_keys(const float* left, const float* panels, float* out) const {
    for (size_t key = 0; key < first + count; key += panel_keys, panels += sizes.head_width * panel_keys)
      for (size_t row = 0; row < count; row += tile_rows) {
        if (seen(row) <= key) continue;
        const size_t vectors = core::div_up(std::min<size_t>(seen(row) - key, panel_keys), lanes);
        multiply_rows<into::fresh>(std::min(tile_rows, count - row), vectors,
                                   {left + row * widths.head, widths.head, 1}, {panels, panel_keys}, sizes.head_width,
                                   out + row * widths.weights + key, widths.weights);
      }
  }

  /// out[row] = sum over seen keys of weights[row][key] * by_key[key].
  void over_keys(const float* weights, const float* by_key, float* out) const {
    for (size_t row = 0; row < count; row += tile_rows)
      multiply_rows<into::fresh>(std::min(tile_rows, count - row), widths.head / lanes,
                                 {weights + row * widths.weights, widths.weights, 1}, {by_key, widths.head}, seen(row),
                                 out + row * widths.head, widths.head);
  }

  /// out[key] += sum over rows that see it of weights[row][key] * by_row[row].
  void over_queries(const float* weights, const float* by_row, float* out) const {
    for (size_t key = 0; key < first + count; key += tile_rows) {
      const size_t row = key > first ? key - first : 0;
      multiply_rows<into::sum>(std::min(tile_rows, first + count - key), widths.head / lanes,
                               {weights + row * widths.weights + key, 1, widths.weights},
                               {by_row + row * widths.head, widths.head}, count - row, out + key * widths.head,
                               widths.head);
    }
  }

  /// Elements of a row that hold something: what its query sees, what its tile does, and the rest of a vector.
  [[nodiscard]] size_t row_end(size_t row) const { return core::round_up(seen(row / tile_rows * tile_rows), lanes); }

  /// Scores of keys ahead of the query become -infinity. Returns the largest score.
  float mask_and_bound(float* scores, size_t row) const {
    const full d;
    std::fill(scores + first + row + 1, scores + row_end(row), -std::numeric_limits<float>::infinity());
    auto most = hn::LoadU(d, scores);
    for (size_t j = lanes; j < row_end(row); j += lanes) most = hn::Max(most, hn::LoadU(d, scores + j));
    return hn::GetLane(hn::MaxOfLanes(d, most));
  }

  /// Which weights of a row are kept.
  void draw(const attention_dropout& dropout, uint64_t head, size_t row, uint8_t* keep) const {
    const size_t own = first + row + 1;
    dropout.draw({keep, own}, head, first + row);
    std::fill(keep + own, keep + row_end(row), uint8_t{0});
  }
};

HWY_INLINE floats<full> kept(full d, const uint8_t* keep, floats<full> x) {
  const hn::RebindToSigned<full> di;
  const hn::Rebind<uint8_t, full> bytes;
  return hn::IfThenElseZero(hn::RebindMask(d, hn::Ne(hn::PromoteTo(di, hn::LoadU(bytes, keep)), hn::Zero(di))), x);
}

/// scores -> weights before they are divided by their sum, which is returned.
HWY_INLINE float exponentials(float* scores, size_t end, float most) {
  const full d;
  const size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  for (size_t j = 0; j < end; j += lanes) {
    const auto e = exponential2(d, hn::Sub(hn::LoadU(d, scores + j), hn::Set(d, most)));
    hn::StoreU(e, d, scores + j);
    sum = hn::Add(sum, e);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE void drop(float* weights, size_t end, const uint8_t* keep) {
  const full d;
  for (size_t j = 0; j < end; j += hn::Lanes(d))
    hn::StoreU(kept(d, keep + j, hn::LoadU(d, weights + j)), d, weights + j);
}

/// A row of scores and of the gradients of (dropped) weights -> (dropped) weights and gradients of scores.
template <bool Dropping>
HWY_INLINE void softmax_backward(float* scores, float* gradients, size_t end, float most, const uint8_t* keep,
                                 float factor) {
  const full d;
  const size_t lanes = hn::Lanes(d);
  const float inverse = 1.0F / exponentials(scores, end, most);
  auto dot = hn::Zero(d);
  for (size_t j = 0; j < end; j += lanes) {
    const auto w = hn::Mul(hn::LoadU(d, scores + j), hn::Set(d, inverse));
    auto g = hn::LoadU(d, gradients + j);
    if constexpr (Dropping) g = kept(d, keep + j, hn::Mul(g, hn::Set(d, factor)));
    dot = hn::MulAdd(w, g, dot);
    hn::StoreU(w, d, scores + j);
    if constexpr (Dropping) hn::StoreU(g, d, gradients + j);
  }
  const auto mean = hn::SumOfLanes(d, dot);
  for (size_t j = 0; j < end; j += lanes) {
    const auto w = hn::LoadU(d, scores + j);
    hn::StoreU(hn::Mul(w, hn::Sub(hn::LoadU(d, gradients + j), mean)), d, gradients + j);
    if constexpr (Dropping) hn::StoreU(kept(d, keep + j, hn::Mul(w, hn::Set(d, factor))), d, scores + j);
  }
}

/// Scores are powers of two: exponents times log2(e).
inline float score_factor(const attention_sizes& s) {
  return static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(s.head_width)));
}

void attention_forward(const attention_sizes& s, const attention_dropout& dropout, const std::byte* qkv, std::byte* y,
                       std::span<float> scratch) {
  with_fp32_dtype(s.type, [&]<class T>(std::type_identity<T>) {
    scratch_parts parts(scratch);
    const forward_scratch m(s, parts);
    const row_widths widths(s);
    const size_t width = s.head_width, stride = (s.heads + 2 * s.kv_heads) * width, group = s.heads / s.kv_heads;
    const auto* in = reinterpret_cast<const T*>(qkv);
    auto* out = reinterpret_cast<T*>(y);
    for (size_t head = 0; head < s.heads; ++head) {
      if (head % group == 0) {
        turn_rows(in + (s.heads + head / group) * width, stride, s.tokens, width, m.keys);
        widen_rows(in + (s.heads + s.kv_heads + head / group) * width, stride, s.tokens, width, 1.0F, m.values);
      }
      for (size_t first = 0; first < s.tokens; first += block_queries) {
        const query_rows block(s, first);
        widen_rows(in + first * stride + head * width, stride, block.count, width, score_factor(s), m.queries);
        block.against_keys(m.queries, m.keys, m.weights);
        float inverse[block_queries];
        for (size_t row = 0; row < block.count; ++row) {
          float* scores = m.weights + row * widths.weights;
          const float most = block.mask_and_bound(scores, row);
          inverse[row] = dropout.factor / exponentials(scores, block.row_end(row), most);
          if (!dropout.draw) continue;
          block.draw(dropout, head, row, m.keep);
          drop(scores, block.row_end(row), m.keep);
        }
        block.over_keys(m.weights, m.values, m.sums);
        for (size_t row = 0; row < block.count; ++row)
          narrow_rows(m.sums + row * widths.head, 1, width, inverse[row],
                      out + ((first + row) * s.heads + head) * width, 0);
      }
    }
  });
}

void attention_backward(const attention_sizes& s, const attention_dropout& dropout, const std::byte* qkv,
                        const std::byte* dy, std::byte* dqkv, std::span<float> scratch) {
  with_fp32_dtype(s.type, [&]<class T>(std::type_identity<T>) {
    scratch_parts parts(scratch);
    const backward_scratch m(s, parts);
    const row_widths widths(s);
    const size_t width = s.head_width, stride = (s.heads + 2 * s.kv_heads) * width, group = s.heads / s.kv_heads;
    const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)));
    const auto* in = reinterpret_cast<const T*>(qkv);
    const auto* gradient = reinterpret_cast<const T*>(dy);
    auto* out = reinterpret_cast<T*>(dqkv);
    for (size_t head = 0; head < s.heads; ++head) {
      const size_t key_at = (s.heads + head / group) * width, value_at = key_at + s.kv_heads * width;
      if (head % group == 0) {
        turn_rows(in + key_at, stride, s.tokens, width, m.keys);
        turn_rows(in + value_at, stride, s.tokens, width, m.turned_values);
        widen_rows(in + key_at, stride, s.tokens, width, 1.0F, m.values);
        std::fill_n(m.key_gradients, s.tokens * widths.head, 0.0F);
        std::fill_n(m.value_gradients, s.tokens * widths.head, 0.0F);
      }
      for (size_t first = 0; first < s.tokens; first += block_queries) {
        const query_rows block(s, first);
        widen_rows(in + first * stride + head * width, stride, block.count, width, score_factor(s), m.queries);
        widen_rows(gradient + (first * s.heads + head) * width, s.heads * width, block.count, width, 1.0F, m.gradients);
        block.against_keys(m.queries, m.keys, m.weights);
        block.against_keys(m.gradients, m.turned_values, m.weight_gradients);
        for (size_t row = 0; row < block.count; ++row) {
          float* scores = m.weights + row * widths.weights;
          float* score_gradients = m.weight_gradients + row * widths.weights;
          const float most = block.mask_and_bound(scores, row);
          if (dropout.draw) {
            block.draw(dropout, head, row, m.keep);
            softmax_backward<true>(scores, score_gradients, block.row_end(row), most, m.keep, dropout.factor);
          } else {
            softmax_backward<false>(scores, score_gradients, block.row_end(row), most, nullptr, 1.0F);
          }
        }
        block.over_queries(m.weights, m.gradients, m.value_gradients);
        block.over_queries(m.weight_gradients, m.queries, m.key_gradients);
        block.over_keys(m.weight_gradients, m.values, m.sums);
        narrow_rows(m.sums, block.count, width, scale, out + first * stride + head * width, stride);
      }
      if ((head + 1) % group == 0) {
        // the queries were multiplied by log2(e), too
        narrow_rows(m.key_gradients, s.tokens, width, std::numbers::ln2_v<float>, out + key_at, stride);
        narrow_rows(m.value_gradients, s.tokens, width, 1.0F, out + value_at, stride);
      }
    }
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(attention_forward);
HWY_EXPORT(attention_backward);

uint64_t causal_attention_scratch(const attention_sizes& sizes) {
  scratch_parts parts({});
  const forward_scratch counted(sizes, parts);
  return parts.taken();
}

uint64_t causal_attention_backward_scratch(const attention_sizes& sizes) {
  scratch_parts parts({});
  const backward_scratch counted(sizes, parts);
  return parts.taken();
}

void causal_attention(const attention_sizes& sizes, const attention_dropout& dropout, const std::byte* qkv,
                      std::byte* y, std::span<float> scratch) {
  assert(sizes.heads % sizes.kv_heads == 0 && scratch.size() >= causal_attention_scratch(sizes));
  HWY_DYNAMIC_DISPATCH(attention_forward)(sizes, dropout, qkv, y, scratch);
}

void causal_attention_backward(const attention_sizes& sizes, const attention_dropout& dropout, const std::byte* qkv,
                               const std::byte* dy, std::byte* dqkv, std::span<float> scratch) {
  assert(sizes.heads % sizes.kv_heads == 0 && scratch.size() >= causal_attention_backward_scratch(sizes));
  HWY_DYNAMIC_DISPATCH(attention_backward)(sizes, dropout, qkv, dy, dqkv, scratch);
}

}  // namespace troupe::kernels
#endif
