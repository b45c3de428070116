// Compares the kernel of attention, causal and not, with plain sums in fp64.
#include "kernels/layers/causal_attention.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "samples.hpp"

BOOST_AUTO_TEST_SUITE(causal_attention)

using namespace troupe;
using namespace troupe::kernels;
using namespace troupe::kernels::tests;

namespace {

/// Drops about a third of the keys, chosen by their positions.
void draw_thirds(std::span<uint8_t> keep, uint64_t head, uint64_t query, uint64_t key) {
  for (uint64_t j = 0; j < keep.size(); ++j)
    keep[j] = (head * 7919 + query * 104729 + (key + j) * 1299709) / 64 % 3 == 0 ? 0 : 1;
}
const attention_dropout none;
const attention_dropout thirds{&draw_thirds, 1.5F};

std::vector<double> numbers(uint64_t count, uint64_t seed, core::dtype type) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> drawn(count);
  for (auto& x : drawn) x = normal(random);
  const auto stored = stored_as(type, drawn);
  cast_reference(stored.data(), type, reinterpret_cast<std::byte*>(drawn.data()), core::dtype::f32, count);
  return {drawn.begin(), drawn.end()};
}

std::vector<std::byte> stored_as(core::dtype type, const std::vector<double>& values) {
  return tests::stored_as(type, std::vector<float>(values.begin(), values.end()));
}

std::vector<double> read_as(core::dtype type, const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / core::size_of(type));
  cast_reference(bytes.data(), type, reinterpret_cast<std::byte*>(out.data()), core::dtype::f32, out.size());
  return {out.begin(), out.end()};
}

/// Computes attention by its definition, one query at a time, in fp64.
struct plain_attention {
  attention_sizes s;
  attention_dropout dropout;
  const std::vector<double>& qkv;

  [[nodiscard]] uint64_t stride() const { return (s.heads + 2 * s.kv_heads) * s.head_width; }
  [[nodiscard]] uint64_t query_at(uint64_t head, uint64_t i) const { return i * stride() + head * s.head_width; }
  [[nodiscard]] uint64_t key_at(uint64_t head, uint64_t j) const {
    return j * stride() + (s.heads + head / (s.heads / s.kv_heads)) * s.head_width;
  }
  [[nodiscard]] uint64_t value_at(uint64_t head, uint64_t j) const {
    return key_at(head, j) + s.kv_heads * s.head_width;
  }

  [[nodiscard]] double scale() const {
    return s.scale > 0 ? s.scale : 1 / std::sqrt(static_cast<double>(s.head_width));
  }
  /// Returns the first key that query `i` sees.
  [[nodiscard]] uint64_t lowest(uint64_t i) const { return s.window == 0 || i < s.window ? 0 : i + 1 - s.window; }
  /// Returns the end of the keys that query `i` sees.
  [[nodiscard]] uint64_t end(uint64_t i) const { return s.causal ? i + 1 : s.tokens; }
  [[nodiscard]] static double dot(const double* a, const double* b, uint64_t n) {
    double sum = 0;
    for (uint64_t k = 0; k < n; ++k) sum += a[k] * b[k];
    return sum;
  }
  /// Returns the score of key `j`, before a cap limits it.
  [[nodiscard]] double score(uint64_t head, uint64_t i, uint64_t j) const {
    return dot(&qkv[query_at(head, i)], &qkv[key_at(head, j)], s.head_width) * scale();
  }
  [[nodiscard]] std::vector<double> weights(uint64_t head, uint64_t i) const {
    std::vector<double> w(end(i), -HUGE_VAL);
    for (uint64_t j = lowest(i); j < end(i); ++j) {
      w[j] = score(head, i, j);
      if (s.soft_cap > 0) w[j] = s.soft_cap * std::tanh(w[j] / s.soft_cap);
    }
    const double most = *std::max_element(w.begin(), w.end());
    double sum = 0;
    for (auto& x : w) sum += x = std::exp(x - most);
    for (auto& x : w) x /= sum;
    return w;
  }
  /// Returns the derivative of the capped score by the score.
  [[nodiscard]] double slope(uint64_t head, uint64_t i, uint64_t j) const {
    if (s.soft_cap == 0) return 1;
    const double t = std::tanh(score(head, i, j) / s.soft_cap);
    return 1 - t * t;
  }
  /// Returns the dropout factor of each attention weight of query `i`: 0 or the scale of kept weights.
  [[nodiscard]] std::vector<double> factors(uint64_t head, uint64_t i) const {
    std::vector<uint8_t> keep(end(i), 1);
    if (dropout.draw) dropout.draw(keep, head, i, 0);
    std::vector<double> out(keep.begin(), keep.end());
    for (auto& x : out) x *= static_cast<double>(dropout.factor);
    return out;
  }

  [[nodiscard]] std::vector<double> forward() const {
    std::vector<double> y(s.tokens * s.heads * s.head_width);
    for (uint64_t head = 0; head < s.heads; ++head)
      for (uint64_t i = 0; i < s.tokens; ++i) {
        const auto w = weights(head, i), f = factors(head, i);
        for (uint64_t j = 0; j < end(i); ++j)
          for (uint64_t k = 0; k < s.head_width; ++k)
            y[(i * s.heads + head) * s.head_width + k] += w[j] * f[j] * qkv[value_at(head, j) + k];
      }
    return y;
  }

  [[nodiscard]] std::vector<double> backward(const std::vector<double>& dy) const {
    std::vector<double> out(qkv.size());
    for (uint64_t head = 0; head < s.heads; ++head)
      for (uint64_t i = 0; i < s.tokens; ++i) {
        const auto w = weights(head, i), f = factors(head, i);
        const double* dyi = &dy[(i * s.heads + head) * s.head_width];
        std::vector<double> dw(end(i)), slopes(end(i));
        for (uint64_t j = 0; j < end(i); ++j) {
          dw[j] = f[j] * dot(dyi, &qkv[value_at(head, j)], s.head_width);
          slopes[j] = slope(head, i, j);
        }
        const double mean = dot(w.data(), dw.data(), end(i));
        for (uint64_t j = 0; j < end(i); ++j)
          for (uint64_t k = 0; k < s.head_width; ++k) {
            const double ds = w[j] * (dw[j] - mean) * scale() * slopes[j];
            out[query_at(head, i) + k] += ds * qkv[key_at(head, j) + k];
            out[key_at(head, j) + k] += ds * qkv[query_at(head, i) + k];
            out[value_at(head, j) + k] += w[j] * f[j] * dyi[k];
          }
      }
    return out;
  }
};

struct results {
  std::vector<std::byte> y, dqkv;
};

/// Returns views of the queries, keys and values of tokens that store the three next to each other.
template <class Byte>
attention_operands<Byte> packed(const attention_sizes& s, Byte* qkv) {
  const uint64_t stride = (s.heads + 2 * s.kv_heads) * s.head_width;
  return {qkv, qkv + s.heads * s.head_width * core::size_of(s.type), stride, stride};
}

/// Runs forward and backward, with scratch memory full of NaN.
results run(const attention_sizes& s, const attention_dropout& dropout, const std::byte* qkv, const std::byte* dy) {
  const uint64_t size = core::size_of(s.type), width = s.tokens * s.head_width * size;
  results out{std::vector<std::byte>(width * s.heads), std::vector<std::byte>(width * (s.heads + 2 * s.kv_heads))};
  std::vector<float> scratch(causal_attention_scratch(s), std::numeric_limits<float>::quiet_NaN());
  const query_run all{0, s.tokens, 0};
  partial_attention(s, dropout, packed(s, qkv), {&all, 1}, out.y.data(), scratch);
  scratch.assign(causal_attention_backward_scratch(s), std::numeric_limits<float>::quiet_NaN());
  partial_attention_backward(s, dropout, packed(s, qkv), {&all, 1}, dy, packed(s, out.dqkv.data()), scratch);
  return out;
}

/// Returns the largest absolute difference, divided by the largest absolute value in `wanted`.
double error(const std::vector<double>& got, const std::vector<double>& wanted) {
  double most = 0, worst = 0;
  for (uint64_t i = 0; i < wanted.size(); ++i) {
    most = std::max(most, std::abs(wanted[i]));
    worst = std::isfinite(got[i]) ? std::max(worst, std::abs(got[i] - wanted[i])) : HUGE_VAL;
  }
  return most > 0 ? worst / most : worst;
}

/// Returns the error bound for fp32 sums of a few hundred terms, followed by one rounding to `type`.
double bound(core::dtype type) {
  return type == core::dtype::bf16 ? 0x1p-8 + 4e-6 : type == core::dtype::f16 ? 0x1p-11 + 4e-6 : 4e-6;
}

void check(const attention_sizes& s, const attention_dropout& dropout) {
  const auto qkv = numbers(s.tokens * (s.heads + 2 * s.kv_heads) * s.head_width, 1, s.type);
  const auto dy = numbers(s.tokens * s.heads * s.head_width, 2, s.type);
  const auto got = run(s, dropout, stored_as(s.type, qkv).data(), stored_as(s.type, dy).data());
  const plain_attention plain{s, dropout, qkv};
  BOOST_TEST_CONTEXT("T " << s.tokens << ", heads " << s.heads << " / " << s.kv_heads << ", width " << s.head_width
                          << ", type " << core::name_of(s.type) << (dropout.draw ? ", dropping" : "") << ", window "
                          << s.window << ", scale " << s.scale << ", cap " << s.soft_cap << ", causal " << s.causal) {
    BOOST_TEST(error(read_as(s.type, got.y), plain.forward()) <= bound(s.type));
    BOOST_TEST(error(read_as(s.type, got.dqkv), plain.backward(dy)) <= bound(s.type));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(both_passes_are_the_sums_of_the_definition) {
  for_each_simd_target([] {
    for (const core::dtype type : fp32_dtypes)
      for (const attention_dropout& dropout : {none, thirds})
        for (const uint64_t tokens : {1U, 2U, 6U, 7U, 48U, 65U, 150U}) check({type, tokens, 2, 1, 64}, dropout);
  });
}

BOOST_AUTO_TEST_CASE(windows_of_any_width_are_the_sums_of_the_definition) {
  for_each_simd_target([] {
    for (const uint64_t window : {1U, 3U, 63U, 64U, 65U, 200U})
      for (const uint64_t tokens : {5U, 64U, 130U, 210U}) {
        attention_sizes s{core::dtype::f32, tokens, 2, 1, 16};
        s.window = window;
        check(s, none);
        check(s, thirds);
      }
    for (const core::dtype type : {core::dtype::bf16, core::dtype::f16}) {
      attention_sizes s{type, 150, 4, 2, 20};
      s.window = 33;
      check(s, thirds);
    }
  });
}

BOOST_AUTO_TEST_CASE(scales_and_soft_caps_are_those_of_the_definition) {
  for_each_simd_target([] {
    for (const uint64_t window : {0U, 40U})
      for (const auto& [scale, cap] : {std::pair{0.05, 0.0}, {0.5, 0.0}, {0.0, 50.0}, {0.0, 0.5}, {0.3, 2.0}}) {
        attention_sizes s{core::dtype::f32, 100, 2, 1, 24};
        s.window = window;
        s.scale = scale;
        s.soft_cap = cap;
        check(s, none);
        check(s, thirds);
        s.type = core::dtype::bf16;
        check(s, none);
      }
  });
}

BOOST_AUTO_TEST_CASE(attention_that_is_not_causal_has_the_sums_over_all_keys) {
  for_each_simd_target([] {
    for (const core::dtype type : fp32_dtypes)
      for (const attention_dropout& dropout : {none, thirds})
        for (const uint64_t tokens : {1U, 2U, 7U, 48U, 65U, 150U}) {
          attention_sizes s{type, tokens, 4, 2, 20};
          s.causal = false;
          check(s, dropout);
          s.soft_cap = 2;
          check(s, dropout);
        }
  });
}

BOOST_AUTO_TEST_CASE(a_window_that_is_not_shorter_than_the_document_changes_no_bit) {
  attention_sizes s{core::dtype::f32, 131, 2, 1, 20};
  const auto qkv = stored_as(s.type, numbers(s.tokens * 80, 3, s.type)),
             dy = stored_as(s.type, numbers(s.tokens * 40, 4, s.type));
  const auto whole = run(s, thirds, qkv.data(), dy.data());
  for (const uint64_t window : {131U, 1000U}) {
    s.window = window;
    const auto same = run(s, thirds, qkv.data(), dy.data());
    TROUPE_CHECK_SAME_BITS(same.y, whole.y);
    TROUPE_CHECK_SAME_BITS(same.dqkv, whole.dqkv);
  }
}

// Keys before the window hold NaN: a kernel that multiplied them by weights of zero would return NaN.
BOOST_AUTO_TEST_CASE(keys_far_before_the_window_are_not_read) {
  attention_sizes s{core::dtype::f32, 300, 1, 1, 8};
  s.window = 20;
  auto values = numbers(s.tokens * 24, 9, s.type);
  for (uint64_t i = 0; i < 30 * 24; ++i) values[i] = std::numeric_limits<double>::quiet_NaN();
  const auto qkv = stored_as(s.type, values), dy = stored_as(s.type, numbers(s.tokens * 8, 10, s.type));
  const auto got = run(s, none, qkv.data(), dy.data());
  const auto y = read_as(s.type, got.y), gradient = read_as(s.type, got.dqkv);
  for (uint64_t token = 200; token < s.tokens; ++token) {
    BOOST_TEST(std::isfinite(y[token * 8]), token);
    BOOST_TEST(std::isfinite(gradient[token * 24]), token);
    BOOST_TEST(std::isfinite(gradient[token * 24 + 8]), token);
  }
}

BOOST_AUTO_TEST_CASE(heads_of_any_width_and_in_any_groups) {
  for_each_simd_target([] {
    for (const uint64_t width : {1U, 3U, 8U, 17U, 32U, 80U, 128U, 130U})
      check({core::dtype::f32, 70, 1, 1, width}, none);
    for (const auto& [heads, kv_heads] : {std::pair{3U, 3U}, {4U, 2U}, {6U, 1U}})
      for (const core::dtype type : fp32_dtypes) check({type, 53, heads, kv_heads, 5}, thirds);
  });
}

BOOST_AUTO_TEST_CASE(a_token_keeps_its_bits_whatever_comes_after_it) {
  for (const core::dtype type : fp32_dtypes) {
    attention_sizes s{type, 131, 2, 1, 20};
    const auto qkv = stored_as(type, numbers(s.tokens * 80, 3, type)),
               dy = stored_as(type, numbers(s.tokens * 40, 4, type));
    const auto whole = run(s, thirds, qkv.data(), dy.data());
    for (const uint64_t tokens : {1U, 5U, 64U, 100U, 130U}) {
      s.tokens = tokens;
      auto y = run(s, thirds, qkv.data(), dy.data()).y, wanted = whole.y;
      wanted.resize(y.size());
      TROUPE_CHECK_SAME_BITS(y, wanted);
    }
  }
}

BOOST_AUTO_TEST_CASE(far_scores_neither_overflow_nor_lose_the_sum) {
  const attention_sizes s{core::dtype::f32, 40, 1, 1, 4};
  auto qkv = numbers(s.tokens * 12, 5, s.type);
  for (uint64_t i = 0; i < qkv.size(); ++i)
    if (i % 12 < 8) qkv[i] *= 100;
  const auto dy = numbers(s.tokens * 4, 6, s.type);
  const auto got = run(s, none, stored_as(s.type, qkv).data(), stored_as(s.type, dy).data());
  const plain_attention plain{s, none, qkv};
  // The bound is 10^-2 because a score of 10^4 has an error of about 10^-3 in fp32.
  BOOST_TEST(error(read_as(s.type, got.y), plain.forward()) <= 1e-2);
  BOOST_TEST(error(read_as(s.type, got.dqkv), plain.backward(dy)) <= 1e-2);
}

BOOST_AUTO_TEST_CASE(nan_and_infinity_come_through) {
  const attention_sizes s{core::dtype::f32, 70, 1, 1, 8};
  const auto dy = stored_as(s.type, numbers(s.tokens * 8, 7, s.type));
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  // Infinite keys are not tested, because softmax may assign them a weight of zero.
  for (const auto& [bad, parts] : {std::pair{nan, std::vector{0U, 8U, 16U}}, {inf, {0U, 16U}}})
    for (const uint64_t part : parts) {
      auto qkv = numbers(s.tokens * 24, 8, s.type);
      qkv[50 * 24 + part] = bad;
      const auto got = read_as(s.type, run(s, none, stored_as(s.type, qkv).data(), dy.data()).y);
      const auto broken = [&](uint64_t token) { return !std::isfinite(got[token * 8]); };
      BOOST_TEST(broken(50), bad << " in part " << part / 8);
      BOOST_TEST(!broken(47));
    }
}

namespace {

/// The runs of positions of two callers that divide the queries of a document.
using two_callers = std::vector<std::vector<query_run>>;

/// Compares two callers that each compute the queries of some runs, from keys and values in an array of their own,
/// with one call for all queries: outputs and gradients of queries have the bits of that call, gradients of keys and
/// values add up to its gradients.
void check_runs(const two_callers& callers, core::dtype type, uint64_t heads, uint64_t kv_heads,
                const attention_dropout& dropout, uint64_t window, bool causal = true) {
  attention_sizes s{type, 131, heads, kv_heads, 8};
  s.window = window;
  s.causal = causal;
  const uint64_t size = core::size_of(type), query = heads * 8 * size, key = 2 * kv_heads * 8 * size;
  const auto qkv = stored_as(type, numbers(s.tokens * (heads + 2 * kv_heads) * 8, 1, type));
  const auto dy = stored_as(type, numbers(s.tokens * heads * 8, 2, type));
  const results whole = run(s, dropout, qkv.data(), dy.data());
  std::vector<double> summed(s.tokens * 2 * kv_heads * 8);
  for (const auto& runs : callers) {
    uint64_t tokens = 0;
    for (const query_run& r : runs) tokens += r.count;
    std::vector<std::byte> q(tokens * query), kv(s.tokens * key), own_dy(tokens * query);
    const auto each_row = [&](auto f) {
      for (const query_run& r : runs)
        for (uint64_t i = 0; i < r.count; ++i) f(r.row + i, r.first + i);
    };
    each_row([&](uint64_t row, uint64_t token) {
      std::copy_n(qkv.data() + token * (query + key), query, q.data() + row * query);
      std::copy_n(dy.data() + token * query, query, own_dy.data() + row * query);
    });
    for (uint64_t t = 0; t < s.tokens; ++t)
      std::copy_n(qkv.data() + t * (query + key) + query, key, kv.data() + t * key);
    std::vector<std::byte> y(q.size()), dq(q.size()), dkv(kv.size());
    const attention_input in{q.data(), kv.data(), query / size, key / size};
    std::vector<float> scratch(causal_attention_scratch(s), std::numeric_limits<float>::quiet_NaN());
    partial_attention(s, dropout, in, runs, y.data(), scratch);
    scratch.assign(causal_attention_backward_scratch(s), std::numeric_limits<float>::quiet_NaN());
    partial_attention_backward(s, dropout, in, runs, own_dy.data(), {dq.data(), dkv.data(), query / size, key / size},
                               scratch);
    each_row([&](uint64_t row, uint64_t token) {
      BOOST_TEST(std::equal(y.begin() + row * query, y.begin() + (row + 1) * query, whole.y.begin() + token * query));
      BOOST_TEST(std::equal(dq.begin() + row * query, dq.begin() + (row + 1) * query,
                            whole.dqkv.begin() + token * (query + key)));
    });
    const auto part = read_as(type, dkv);
    for (size_t i = 0; i < part.size(); ++i) summed[i] += part[i];
  }
  std::vector<double> wanted;
  const auto all = read_as(type, whole.dqkv);
  for (uint64_t t = 0; t < s.tokens; ++t)
    wanted.insert(wanted.end(), all.begin() + (t * (query + key) + query) / size,
                  all.begin() + (t + 1) * (query + key) / size);
  BOOST_TEST(error(summed, wanted) <= 2 * bound(type));
}

}  // namespace

// Runs that end at a multiple of 64 inside the document end with a panel of keys, in the middle of a tile of queries.
BOOST_AUTO_TEST_CASE(some_queries_have_the_bits_of_all_and_their_gradients_add_up) {
  for (const auto& callers :
       {two_callers{{{0, 19, 0}, {70, 61, 19}}, {{19, 51, 0}}}, two_callers{{{0, 64, 0}, {128, 3, 64}}, {{64, 64, 0}}}})
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16})
      for (const auto& [heads, kv_heads] : {std::pair<uint64_t, uint64_t>{2, 2}, {4, 1}})
        for (const auto* dropout : {&none, &thirds}) {
          for (const uint64_t window : {0U, 1U, 40U}) check_runs(callers, type, heads, kv_heads, *dropout, window);
          check_runs(callers, type, heads, kv_heads, *dropout, 0, /*causal=*/false);
        }
}

BOOST_AUTO_TEST_SUITE_END()
