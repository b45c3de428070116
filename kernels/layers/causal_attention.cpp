#include "kernels/layers/causal_attention.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/math.hpp"
#include "kernels/base/with_dtype.hpp"
#include "kernels/layers/attention_scratch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layers/causal_attention.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/simd-inl.hpp"
#include "kernels/layers/attention_rows-inl.hpp"
#include "kernels/layers/attention_softmax-inl.hpp"
#include "kernels/products/product_tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

static_assert(block_queries % tile_rows == 0, "the rows of a tile lie in one block");

/// A block of queries [first, first + count) of a document, which is processed together, and the sizes that its matrix
/// products share.
struct query_rows {
  const attention_sizes& sizes;
  row_widths widths;
  size_t first, count, lanes;

  query_rows(const attention_sizes& s, size_t first_query, size_t queries)
      : sizes(s), widths(s), first(first_query), count(queries), lanes(hn::Lanes(full())) {}

  /// Returns the end of the keys that at least one query of the block may see.
  [[nodiscard]] size_t end_of_keys() const { return sizes.causal ? first + count : sizes.tokens; }

  /// Returns how many keys at least one query of the tile that begins at `row` may see: keys up to the query's own
  /// position, or all. A tile is at most tile_rows queries of the block that one product computes. Keys from
  /// end_of_keys() on do not count: against_keys() computes nothing for them, so their elements of a row are never
  /// written.
  [[nodiscard]] size_t seen(size_t row) const {
    return sizes.causal ? first + std::min(row + tile_rows, count) : sizes.tokens;
  }

  /// Returns the end of the keys that the query `row` sees.
  [[nodiscard]] size_t end_seen(size_t row) const { return sizes.causal ? first + row + 1 : sizes.tokens; }

  /// Returns the first key that the query `row` sees.
  [[nodiscard]] size_t lowest(size_t row) const {
    return sizes.window == 0 || first + row < sizes.window ? 0 : first + row + 1 - sizes.window;
  }

  /// Computes out[row][key] as the dot product of left[row] and panels[key], for all queries (rows) and the keys that a
  /// row's tile may see. `panels`: keys or values, transposed.
  void against_keys(const float* left, const float* panels, float* out) const {
    const size_t skipped = row_begin(0) / panel_keys;
    panels += skipped * sizes.head_width * panel_keys;
    for (size_t key = skipped * panel_keys; key < end_of_keys();
         key += panel_keys, panels += sizes.head_width * panel_keys)
      for (size_t row = 0; row < count; row += tile_rows) {
        const size_t begin = std::max(key, row_begin(row)), end = std::min<size_t>(seen(row), key + panel_keys);
        if (end <= begin) continue;
        multiply_rows<into::fresh>(std::min(tile_rows, count - row), core::div_up(end - begin, lanes),
                                   {left + row * widths.head, widths.head, 1}, {panels + (begin - key), panel_keys},
                                   sizes.head_width, out + row * widths.weights + begin, widths.weights);
      }
  }

  /// Computes out[row] as the sum of weights[row][key] * by_key[key] over the keys that the row's tile may see; weights
  /// of keys that the query does not see must be 0.
  void over_keys(const float* weights, const float* by_key, float* out) const {
    for (size_t row = 0; row < count; row += tile_rows) {
      const size_t begin = row_begin(row);
      multiply_rows<into::fresh>(std::min(tile_rows, count - row), widths.head / lanes,
                                 {weights + row * widths.weights + begin, widths.weights, 1},
                                 {by_key + begin * widths.head, widths.head}, seen(row) - begin,
                                 out + row * widths.head, widths.head);
    }
  }

  /// Adds to out[key] the sum of weights[row][key] * by_row[row] over the queries (rows) that may see the key.
  void over_queries(const float* weights, const float* by_row, float* out) const {
    for (size_t key = lowest(0) / tile_rows * tile_rows; key < end_of_keys(); key += tile_rows) {
      const size_t row = sizes.causal && key > first ? key - first : 0;
      multiply_rows<into::sum>(std::min(tile_rows, end_of_keys() - key), widths.head / lanes,
                               {weights + row * widths.weights + key, 1, widths.weights},
                               {by_row + row * widths.head, widths.head}, end_of_rows(key) - row,
                               out + key * widths.head, widths.head);
    }
  }

  /// Returns the end of the queries (rows) that may see one of the tile_rows keys from `key` on. `key` must not precede
  /// the tile with the first key that the block sees.
  [[nodiscard]] size_t end_of_rows(size_t key) const {
    return sizes.window == 0 ? count : std::min<size_t>(count, key + tile_rows - 1 + sizes.window - first);
  }

  /// Return the bounds of the elements of a query's row of weights that are used, in whole vectors: the keys that its
  /// tile may see, from a multiple of tile_rows on, because over_queries() reads tile_rows keys at a time.
  [[nodiscard]] size_t row_begin(size_t row) const {
    if (sizes.window == 0) return 0;
    return lowest(row / tile_rows * tile_rows) / tile_rows * tile_rows / lanes * lanes;
  }
  [[nodiscard]] size_t row_end(size_t row) const { return core::round_up(seen(row / tile_rows * tile_rows), lanes); }

  /// Sets the scores of keys that the query `row` does not see to -infinity. Returns the query's largest score.
  float mask_and_bound(float* scores, size_t row) const {
    const full d;
    const auto hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
    const size_t low = lowest(row), own = end_seen(row), end = row_end(row);
    auto most = hidden;
    size_t j = row_begin(row);
    for (; j < low; j += lanes) {
      const auto in_window = hn::AndNot(hn::FirstN(d, low - j), hn::FirstN(d, own - j));
      const auto seen_only = hn::IfThenElse(in_window, hn::LoadU(d, scores + j), hidden);
      hn::StoreU(seen_only, d, scores + j);
      most = hn::Max(most, seen_only);
    }
    for (; j + lanes <= own; j += lanes) most = hn::Max(most, hn::LoadU(d, scores + j));
    for (; j < end; j += lanes) {
      const auto seen_only =
          j < own ? hn::IfThenElse(hn::FirstN(d, own - j), hn::LoadU(d, scores + j), hidden) : hidden;
      hn::StoreU(seen_only, d, scores + j);
      most = hn::Max(most, seen_only);
    }
    return hn::GetLane(hn::MaxOfLanes(d, most));
  }

  /// Sets keep[j] to 1 or 0: whether dropout keeps the attention weight of query `row` and key j.
  void draw(const attention_dropout& dropout, uint64_t head, size_t row, uint8_t* keep) const {
    const size_t low = lowest(row), own = end_seen(row);
    std::fill(keep + row_begin(row), keep + low, uint8_t{0});
    dropout.draw({keep + low, own - low}, head, first + row, low);
    std::fill(keep + own, keep + row_end(row), uint8_t{0});
  }
};

/// The factors of queries, scores and gradients. The softmax uses powers of 2 instead of e, so its scores are
/// multiplied by log2(e).
struct score_factors {
  double scale;      // factor of the products of queries and keys
  float of_queries;  // factor of the queries, for scores that the softmax takes or, with a cap, for scores / cap
  float limit;       // cap of the scores that the softmax takes; 0: none
  float of_keys;     // factor of the sums of score gradients times multiplied queries, which are gradients of keys

  explicit score_factors(const attention_sizes& s) {
    const double root = std::sqrt(static_cast<double>(s.head_width));
    scale = s.scale > 0 ? s.scale : 1.0 / root;
    const double in_powers_of_2 = s.scale > 0 ? std::numbers::log2e * s.scale : std::numbers::log2e / root;
    const bool is_capped = s.soft_cap > 0;
    of_queries = static_cast<float>(is_capped ? scale / s.soft_cap : in_powers_of_2);
    limit = static_cast<float>(std::numbers::log2e * s.soft_cap);
    of_keys = is_capped ? static_cast<float>(s.soft_cap) : std::numbers::ln2_v<float>;
  }
};

/// Replaces the scores of a block's queries in `weights` by their exponentials, and sets `sums` to the sums of the
/// rows. If there is a cap, caps the scores first and stores the derivatives to `slopes`, if that is not null.
inline void exponentiate(const query_rows& block, const score_factors& by, float* weights, float* slopes, float* sums) {
  const size_t stride = block.widths.weights;
  float most[block_queries];
  for (size_t row = 0; row < block.count; ++row) {
    const size_t begin = row * stride + block.row_begin(row);
    if (by.limit > 0)
      cap_scores(weights + begin, block.row_end(row) - block.row_begin(row), by.limit,
                 slopes != nullptr ? slopes + begin : nullptr);
    most[row] = block.mask_and_bound(weights + row * stride, row);
  }
  for (size_t row = 0; row < block.count; ++row)
    sums[row] = exponentials(weights + row * stride + block.row_begin(row), block.row_end(row) - block.row_begin(row),
                             most[row]);
}

/// Calls f(block, lead, row) for the blocks of queries of all runs. A block begins at a multiple of tile_rows, so its
/// first `lead` queries may precede the run; they are ignored. Its further queries are the tokens from `row` on in the
/// call's array of tokens.
template <class F>
void for_each_block(const attention_sizes& s, std::span<const query_run> runs, F f) {
  for (const query_run& run : runs) {
    const size_t end = run.first + run.count;
    for (size_t first = run.first / tile_rows * tile_rows; first < end; first += block_queries) {
      const size_t lead = first < run.first ? run.first - first : 0;
      f(query_rows(s, first, std::min<size_t>(block_queries, end - first)), lead, run.row + first + lead - run.first);
    }
  }
}

/// Converts one head of the tokens of a block to fp32 rows times `factor`, after `lead` rows of zeros.
template <class T>
void widen_block(const query_rows& block, size_t lead, const T* from, size_t stride, float factor, float* to) {
  std::fill_n(to, lead * block.widths.head, 0.0F);
  widen_rows(from, stride, block.count - lead, block.sizes.head_width, factor, to + lead * block.widths.head);
}

void attention_forward(const attention_sizes& s, const attention_dropout& dropout, const attention_input& from,
                       std::span<const query_run> runs, std::byte* y, std::span<float> scratch) {
  with_fp32_dtype(s.type, [&]<class T>(std::type_identity<T>) {
    scratch_parts parts(scratch);
    const forward_scratch m(s, parts);
    const row_widths widths(s);
    const score_factors by(s);
    const size_t width = s.head_width, group = s.heads / s.kv_heads;
    const auto* in = reinterpret_cast<const T*>(from.queries);
    const auto* keys = reinterpret_cast<const T*>(from.keys);
    auto* out = reinterpret_cast<T*>(y);
    for (size_t head = 0; head < s.heads; ++head) {
      if (head % group == 0) {
        turn_rows(keys + head / group * width, from.key_stride, s.tokens, width, m.keys);
        widen_rows(keys + (s.kv_heads + head / group) * width, from.key_stride, s.tokens, width, 1.0F, m.values);
      }
      for_each_block(s, runs, [&](const query_rows& block, size_t lead, size_t token) {
        widen_block(block, lead, in + token * from.query_stride + head * width, from.query_stride, by.of_queries,
                    m.queries);
        block.against_keys(m.queries, m.keys, m.weights);
        float sums[block_queries];
        exponentiate(block, by, m.weights, nullptr, sums);
        for (size_t row = 0; dropout.draw && row < block.count; ++row) {
          const size_t begin = block.row_begin(row);
          block.draw(dropout, head, row, m.keep);
          drop(m.weights + row * widths.weights + begin, block.row_end(row) - begin, m.keep + begin);
        }
        block.over_keys(m.weights, m.values, m.sums);
        for (size_t row = lead; row < block.count; ++row)
          narrow_rows(m.sums + row * widths.head, 1, width, dropout.factor / sums[row],
                      out + ((token + row - lead) * s.heads + head) * width, 0);
      });
    }
  });
}

void attention_backward(const attention_sizes& s, const attention_dropout& dropout, const attention_input& from,
                        std::span<const query_run> runs, const std::byte* dy, const attention_gradient& to,
                        std::span<float> scratch) {
  with_fp32_dtype(s.type, [&]<class T>(std::type_identity<T>) {
    scratch_parts parts(scratch);
    const backward_scratch m(s, parts);
    const row_widths widths(s);
    const size_t width = s.head_width, group = s.heads / s.kv_heads;
    const score_factors by(s);
    const auto* in = reinterpret_cast<const T*>(from.queries);
    const auto* keys = reinterpret_cast<const T*>(from.keys);
    const auto* gradient = reinterpret_cast<const T*>(dy);
    auto* dqueries = reinterpret_cast<T*>(to.queries);
    auto* dkeys = reinterpret_cast<T*>(to.keys);
    for (size_t head = 0; head < s.heads; ++head) {
      const size_t key_at = head / group * width, value_at = key_at + s.kv_heads * width;
      if (head % group == 0) {
        turn_rows(keys + key_at, from.key_stride, s.tokens, width, m.keys);
        turn_rows(keys + value_at, from.key_stride, s.tokens, width, m.turned_values);
        widen_rows(keys + key_at, from.key_stride, s.tokens, width, 1.0F, m.values);
        std::fill_n(m.key_gradients, s.tokens * widths.head, 0.0F);
        std::fill_n(m.value_gradients, s.tokens * widths.head, 0.0F);
      }
      for_each_block(s, runs, [&](const query_rows& block, size_t lead, size_t token) {
        widen_block(block, lead, in + token * from.query_stride + head * width, from.query_stride, by.of_queries,
                    m.queries);
        widen_block(block, lead, gradient + (token * s.heads + head) * width, s.heads * width, 1.0F, m.gradients);
        block.against_keys(m.queries, m.keys, m.weights);
        block.against_keys(m.gradients, m.turned_values, m.weight_gradients);
        float sums[block_queries];
        exponentiate(block, by, m.weights, m.slopes, sums);
        for (size_t row = 0; row < block.count; ++row) {
          const size_t begin = block.row_begin(row), used = block.row_end(row) - begin;
          const size_t at = row * widths.weights + begin;
          const float inverse = 1.0F / sums[row];
          if (dropout.draw) {
            block.draw(dropout, head, row, m.keep);
            softmax_backward<true>(m.weights + at, inverse, m.weight_gradients + at, used, m.keep + begin,
                                   dropout.factor);
          } else {
            softmax_backward<false>(m.weights + at, inverse, m.weight_gradients + at, used, nullptr, 1.0F);
          }
          if (m.slopes != nullptr) cap_backward(m.weight_gradients + at, used, m.slopes + at);
        }
        block.over_queries(m.weights, m.gradients, m.value_gradients);
        block.over_queries(m.weight_gradients, m.queries, m.key_gradients);
        block.over_keys(m.weight_gradients, m.values, m.sums);
        narrow_rows(m.sums + lead * widths.head, block.count - lead, width, static_cast<float>(by.scale),
                    dqueries + token * to.query_stride + head * width, to.query_stride);
      });
      if ((head + 1) % group == 0) {
        narrow_rows(m.key_gradients, s.tokens, width, by.of_keys, dkeys + key_at, to.key_stride);
        narrow_rows(m.value_gradients, s.tokens, width, 1.0F, dkeys + value_at, to.key_stride);
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

void partial_attention(const attention_sizes& sizes, const attention_dropout& dropout, const attention_input& in,
                       std::span<const query_run> runs, std::byte* y, std::span<float> scratch) {
  assert(sizes.causal || sizes.window == 0);
  assert(sizes.heads % sizes.kv_heads == 0 && scratch.size() >= causal_attention_scratch(sizes));
  HWY_DYNAMIC_DISPATCH(attention_forward)(sizes, dropout, in, runs, y, scratch);
}

void partial_attention_backward(const attention_sizes& sizes, const attention_dropout& dropout,
                                const attention_input& in, std::span<const query_run> runs, const std::byte* dy,
                                const attention_gradient& out, std::span<float> scratch) {
  assert(sizes.causal || sizes.window == 0);
  assert(sizes.heads % sizes.kv_heads == 0 && scratch.size() >= causal_attention_backward_scratch(sizes));
  HWY_DYNAMIC_DISPATCH(attention_backward)(sizes, dropout, in, runs, dy, out, scratch);
}

}  // namespace troupe::kernels
#endif
