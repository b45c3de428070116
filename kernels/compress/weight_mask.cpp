#include "kernels/compress/weight_mask.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "kernels/compress/pruning.hpp"

namespace troupe::kernels {
namespace {

/// Returns the index in memory of element (row, column).
uint64_t place_of(const masked_matrix& m, uint64_t row, uint64_t column) {
  return m.transposed ? column * m.rows + row : row * m.columns + column;
}

/// Returns a copy of the weight's elements in the order (rows, columns).
std::vector<float> in_order(const masked_matrix& m, std::span<const float> weight) {
  assert(weight.size() == m.elements());
  std::vector<float> out(weight.begin(), weight.end());
  if (!m.transposed) return out;
  constexpr uint64_t rows_at_once = 16;
  for (uint64_t first = 0; first < m.rows; first += rows_at_once)
    for (uint64_t c = 0; c < m.columns; ++c)
      for (uint64_t r = first; r < std::min(first + rows_at_once, m.rows); ++r)
        out[r * m.columns + c] = weight[c * m.rows + r];
  return out;
}

mask_bits largest(std::span<const float> scores, uint64_t kept) {
  std::vector<uint8_t> keep(scores.size());
  keep_largest(scores, kept, keep);
  return packed_mask(keep);
}

void drop(std::span<uint8_t> bits, uint64_t i) { bits[i / 8] = static_cast<uint8_t>(bits[i / 8] & ~(1U << i % 8)); }

/// Sets elements whose mask bit is 0 to zero. Does not multiply, so that infinities and NaN become 0 as well.
template <class Element>
void mask(Element* x, uint64_t elements, std::span<const uint8_t> bits, uint64_t first) {
  uint64_t i = 0;
  for (; i < elements && (first + i) % 8 != 0; ++i)
    if (!is_kept(bits, first + i)) x[i] = 0;
  for (; i + 8 <= elements; i += 8) {
    const uint8_t eight = bits[(first + i) / 8];
    if (eight == 0xFF) continue;
    for (uint64_t b = 0; b < 8; ++b) x[i + b] &= static_cast<Element>(Element{0} - (eight >> b & 1U));
  }
  for (; i < elements; ++i)
    if (!is_kept(bits, first + i)) x[i] = 0;
}

}  // namespace

mask_bits largest_elements(const masked_matrix& m, std::span<const float> weight, uint64_t kept) {
  auto scores = in_order(m, weight);
  magnitudes_of(reinterpret_cast<const std::byte*>(scores.data()), core::dtype::f32, scores);
  return largest(scores, kept);
}

mask_bits largest_rows(const masked_matrix& m, std::span<const float> weight, uint64_t kept) {
  const auto matrix = in_order(m, weight);
  std::vector<float> scores(m.rows);
  row_magnitudes(reinterpret_cast<const std::byte*>(matrix.data()), core::dtype::f32, m.columns, scores);
  return largest(scores, kept);
}

mask_bits whole_mask(uint64_t elements) {
  mask_bits out((elements + 7) / 8, 0xFF);
  if (elements % 8 != 0) out.back() = static_cast<uint8_t>((1U << elements % 8) - 1);
  return out;
}

void and_elements(const masked_matrix& m, std::span<const uint8_t> bits, std::span<uint8_t> into) {
  if (!m.transposed) {
    for (size_t i = 0; i < into.size(); ++i) into[i] &= bits[i];
    return;
  }
  for (uint64_t r = 0; r < m.rows; ++r)
    for (uint64_t c = 0; c < m.columns; ++c)
      if (!is_kept(bits, r * m.columns + c)) drop(into, place_of(m, r, c));
}

void and_rows(const masked_matrix& m, std::span<const uint8_t> bits, std::span<uint8_t> into) {
  for (uint64_t r = 0; r < m.rows; ++r)
    if (!is_kept(bits, r))
      for (uint64_t c = 0; c < m.columns; ++c) drop(into, place_of(m, r, c));
}

void and_heads(const masked_matrix& m, std::span<const uint8_t> bits, uint64_t heads, std::span<uint8_t> into) {
  const uint64_t width = m.columns / heads;
  for (uint64_t c = 0; c < m.columns; ++c)
    if (!is_kept(bits, c / width))
      for (uint64_t r = 0; r < m.rows; ++r) drop(into, place_of(m, r, c));
}

mask_bits share_of_mask(std::span<const uint8_t> whole, std::span<const core::tp_run> runs) {
  mask_bits out = whole_mask(runs.empty() ? 0 : runs.back().local + runs.back().count);
  for (const core::tp_run& run : runs) {
    if (run.is_padding()) continue;
    uint64_t i = 0;
    while (i < run.count) {
      const uint64_t to = run.local + i, from = run.whole + i;
      if (to % 8 == 0 && from % 8 == 0 && run.count - i >= 8) {
        const uint64_t bytes = (run.count - i) / 8;
        std::memcpy(&out[to / 8], &whole[from / 8], bytes);
        i += bytes * 8;
        continue;
      }
      if (!is_kept(whole, from)) drop(out, to);
      ++i;
    }
  }
  return out;
}

uint64_t kept_in(std::span<const uint8_t> bits, uint64_t elements) {
  uint64_t out = 0;
  for (uint64_t i = 0; i < elements / 8; ++i) out += static_cast<uint64_t>(std::popcount(bits[i]));
  for (uint64_t i = elements / 8 * 8; i < elements; ++i) out += is_kept(bits, i) ? 1 : 0;
  return out;
}

void apply_mask(std::byte* x, core::dtype type, uint64_t elements, std::span<const uint8_t> bits, uint64_t first) {
  switch (core::size_of(type)) {  // works for any type of this size: elements are kept or cleared as integers
    case 2:
      return mask(reinterpret_cast<uint16_t*>(x), elements, bits, first);
    case 4:
      return mask(reinterpret_cast<uint32_t*>(x), elements, bits, first);
    default:
      return mask(reinterpret_cast<uint64_t*>(x), elements, bits, first);
  }
}

}  // namespace troupe::kernels
