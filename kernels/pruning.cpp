#include "kernels/pruning.hpp"

#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <string>

#include "core/text.hpp"
#include "kernels/with_dtype.hpp"

namespace troupe::kernels {
namespace {

constexpr uint64_t sum_lanes = 16;
/// A score's place in the order is found by its upper 16 bits, then by its lower ones.
constexpr size_t half_values = size_t{1} << 16;

/// Integers in the order of the numbers; both zeros are one.
uint32_t order_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

/// The largest value v so that at least `wanted` of `counts` stand at v and above; `wanted` becomes how many of those
/// at v itself are needed.
uint32_t value_at(const std::vector<uint64_t>& counts, uint64_t& wanted) {
  auto value = static_cast<uint32_t>(half_values - 1);
  while (counts[value] < wanted) wanted -= counts[value--];
  return value;
}

}  // namespace

core::result<uint64_t> kept_of(double dense_ratio, uint64_t count) {
  if (!(dense_ratio > 0 && dense_ratio <= 1) || count == 0)
    return core::fail(core::error_kind::bad_input, "a ratio above 0 and at most 1 was wanted, got " +
                                                       core::number_text(dense_ratio) + " of " + std::to_string(count));
  return std::min(count, static_cast<uint64_t>(std::ceil(dense_ratio * static_cast<double>(count))));
}

void keep_largest(std::span<const float> scores, uint64_t kept, std::span<uint8_t> keep) {
  assert(keep.size() == scores.size() && kept <= scores.size());
  if (kept == 0) {
    if (!keep.empty()) std::memset(keep.data(), 0, keep.size());
    return;
  }
  std::vector<uint64_t> counts(half_values);
  for (const float s : scores) ++counts[order_of(s) >> 16];
  uint64_t wanted = kept;
  const uint32_t upper = value_at(counts, wanted);
  counts.assign(half_values, 0);
  for (const float s : scores)
    if (order_of(s) >> 16 == upper) ++counts[order_of(s) & 0xFFFFU];
  const uint32_t least = upper << 16 | value_at(counts, wanted);
  for (size_t i = 0; i < scores.size(); ++i) {
    const uint32_t order = order_of(scores[i]);
    keep[i] = order > least || (order == least && wanted > 0) ? 1 : 0;
    if (order == least && wanted > 0) --wanted;
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

void mask_elements(std::byte* x, core::dtype type, std::span<const uint8_t> keep) { mask_rows(x, type, 1, keep); }

void mask_rows(std::byte* x, core::dtype type, uint64_t width, std::span<const uint8_t> keep) {
  const uint64_t bytes = width * core::size_of(type);
  for (size_t r = 0; r < keep.size(); ++r)
    if (keep[r] == 0) std::memset(x + r * bytes, 0, bytes);
}

void mask_heads(std::byte* x, core::dtype type, uint64_t rows, uint64_t head_width, std::span<const uint8_t> keep) {
  const uint64_t row_bytes = keep.size() * head_width * core::size_of(type);
  for (uint64_t r = 0; r < rows; ++r) mask_rows(x + r * row_bytes, type, head_width, keep);
}

std::vector<uint8_t> packed_mask(std::span<const uint8_t> keep) {
  std::vector<uint8_t> out((keep.size() + 7) / 8);
  for (size_t i = 0; i < keep.size(); ++i)
    if (keep[i] != 0) out[i / 8] = static_cast<uint8_t>(out[i / 8] | 1U << i % 8);
  return out;
}

void unpack_mask(std::span<const uint8_t> packed, std::span<uint8_t> keep) {
  assert(packed.size() == (keep.size() + 7) / 8);
  for (size_t i = 0; i < keep.size(); ++i) keep[i] = static_cast<uint8_t>(packed[i / 8] >> i % 8 & 1U);
}

}  // namespace troupe::kernels
