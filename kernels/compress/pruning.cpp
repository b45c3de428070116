#include "kernels/compress/pruning.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

#include "core/text.hpp"
#include "kernels/base/with_dtype.hpp"

namespace troupe::kernels {
namespace {

constexpr uint64_t sum_lanes = 16;
/// A digit of a score's integer: `values` possible values, from bit `shift` on. The limit of the kept scores is found
/// digit by digit, from the highest (radix selection). Counts of neighbouring scores are kept in separate arrays,
/// because many scores have the same upper bits, and increments of one counter would wait for each other.
struct digit {
  uint32_t shift, values;
};
constexpr digit digits[] = {{21, 1U << 11}, {10, 1U << 11}, {0, 1U << 10}};
constexpr size_t counted_apart = 4;

/// Maps a score to an integer, such that greater scores have greater integers; both zeros map to one integer.
uint32_t order_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

/// Returns the largest value v of digit `d` such that at least `wanted` scores whose higher digits equal `prefix`
/// have v or more in this digit; reduces `wanted` by the number of scores that have more than v.
uint32_t value_at(std::span<const float> scores, const digit& d, uint32_t prefix, uint64_t& wanted) {
  std::vector<uint64_t> counts(counted_apart * d.values);
  const uint64_t above = uint64_t{d.shift} + static_cast<uint64_t>(std::countr_zero(d.values));
  for (size_t i = 0; i < scores.size(); ++i) {
    const uint32_t order = order_of(scores[i]);
    counts[i % counted_apart * d.values + (order >> d.shift & (d.values - 1))] +=
        uint64_t{order} >> above == prefix ? 1 : 0;
  }
  for (uint32_t value = d.values - 1;; --value) {
    uint64_t count = 0;
    for (size_t c = 0; c < counted_apart; ++c) count += counts[c * d.values + value];
    if (count >= wanted) return value;
    wanted -= count;
  }
}

}  // namespace

core::result<uint64_t> kept_of(double dense_ratio, uint64_t count) {
  if (!(dense_ratio > 0 && dense_ratio <= 1) || count == 0)
    return core::fail(core::error_kind::bad_input, fmt::format("wanted a ratio above 0 and at most 1, got {} of {}",
                                                               core::number_text(dense_ratio), count));
  return std::min(count, static_cast<uint64_t>(std::ceil(dense_ratio * static_cast<double>(count))));
}

void keep_largest(std::span<const float> scores, uint64_t kept, std::span<uint8_t> keep) {
  assert(keep.size() == scores.size() && kept <= scores.size());
  if (kept == 0) {
    if (!keep.empty()) std::memset(keep.data(), 0, keep.size());
    return;
  }
  uint64_t wanted = kept;
  uint32_t least = 0;
  for (const auto& d : digits) least = least * d.values + value_at(scores, d, least, wanted);
  for (size_t i = 0; i < scores.size(); ++i) keep[i] = order_of(scores[i]) > least ? 1 : 0;
  for (size_t i = 0; wanted > 0; ++i) {
    if (order_of(scores[i]) != least) continue;
    keep[i] = 1;
    --wanted;
  }
}

void magnitudes_of(const std::byte* x, core::dtype type, std::span<float> scores) {
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto* values = reinterpret_cast<const T*>(x);
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(std::fabs(widen(values[i])));
  });
}

void row_magnitudes(const std::byte* x, core::dtype type, uint64_t width, std::span<float> scores) {
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto* row = reinterpret_cast<const T*>(x);
    for (float& score : scores) {
      std::array<double, sum_lanes> lanes{};
      for (uint64_t i = 0; i < width; ++i) lanes[i % sum_lanes] += std::fabs(static_cast<double>(widen(row[i])));
      for (uint64_t half = sum_lanes / 2; half > 0; half /= 2)
        for (uint64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
      score = static_cast<float>(lanes[0]);
      row += width;
    }
  });
}

std::vector<uint8_t> packed_mask(std::span<const uint8_t> keep) {
  std::vector<uint8_t> out((keep.size() + 7) / 8);
  for (size_t i = 0; i < keep.size(); ++i)
    if (keep[i] != 0) out[i / 8] = static_cast<uint8_t>(out[i / 8] | 1U << i % 8);
  return out;
}

}  // namespace troupe::kernels
