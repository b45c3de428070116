#include "formats/compressed/stored_weight.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "core/math.hpp"
#include "core/text.hpp"
#include "formats/source/element_cast.hpp"
#include "kernels/base/small_floats.hpp"

namespace troupe::formats {
namespace {

using core::dtype;
using kernels::code_kind;
using kernels::group_scale;

constexpr uint64_t word_bits = 32, word_bytes = 4;
/// Group sizes that the error message for an unsuitable group size suggests.
constexpr uint64_t offered_groups[] = {256, 128, 64, 32, 16, 8};

bool is_packed(const weight_scheme& s) { return s.layout == compressed_layout::pack_quantized; }

int32_t half_of(const weight_scheme& s) { return 1 << (s.bits - 1); }

template <class T>
std::span<T> as(std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

uint32_t word_at(std::span<const std::byte> bytes, uint64_t i) {
  uint32_t out = 0;
  std::memcpy(&out, bytes.data() + i * word_bytes, word_bytes);
  return out;
}

}  // namespace

uint64_t compressed_matrix::code_row_bytes() const {
  if (is_packed(scheme)) return kernels::packed_words(columns, scheme.bits) * word_bytes;
  return scheme.codes().kind == code_kind::e2m1 ? columns / 2 : columns;
}

dtype compressed_matrix::scale_type() const {
  return scheme.codes().kind == code_kind::e2m1 ? dtype::u8 : scheme.scale_type;
}

core::result<void> check(const compressed_matrix& m) {
  if (m.rows == 0 || m.columns == 0)
    return fail(error_kind::bad_input, fmt::format("a weight of {} x {} has no elements", m.rows, m.columns));
  if (m.columns % m.group() != 0) {
    std::vector<uint64_t> fitting;
    for (const uint64_t group : offered_groups)
      if (m.columns % group == 0) fitting.push_back(group);
    return fail(error_kind::bad_input,
                fmt::format("groups of {} do not divide rows of {}{}", m.group(), m.columns,
                            fitting.empty() ? "" : fmt::format("; {} would", fmt::join(fitting, ", "))));
  }
  if (m.scheme.codes().kind == code_kind::e2m1 && m.columns % 2 != 0)
    return fail(error_kind::bad_input,
                fmt::format("rows of {} elements cannot be packed two to a byte: wanted an even number", m.columns));
  return {};
}

std::vector<part_tensor> parts_of(const compressed_matrix& m) {
  const auto rows = static_cast<int64_t>(m.rows), columns = static_cast<int64_t>(m.columns);
  const auto groups = static_cast<int64_t>(m.groups_of_row());
  const auto words = [&](uint64_t count) { return static_cast<int64_t>(kernels::packed_words(count, m.scheme.bits)); };
  std::vector<part_tensor> out;
  switch (m.scheme.layout) {
    case compressed_layout::pack_quantized:
      out.push_back({weight_part::codes, "weight_packed", dtype::i32, {rows, words(m.columns)}});
      out.push_back({weight_part::shape, "weight_shape", dtype::i64, {2}});
      if (!m.scheme.symmetric)
        out.push_back({weight_part::zeros, "weight_zero_point", dtype::i32, {words(m.rows), groups}});
      break;
    case compressed_layout::int_quantized:
      out.push_back({weight_part::codes, "weight", dtype::i8, {rows, columns}});
      if (!m.scheme.symmetric) out.push_back({weight_part::zeros, "weight_zero_point", dtype::i8, {rows, groups}});
      break;
    case compressed_layout::float_quantized:
      out.push_back({weight_part::codes, "weight", dtype::u8, {rows, columns}, true});
      break;
    case compressed_layout::mxfp4:
      out.push_back({weight_part::codes, "weight_packed", dtype::u8, {rows, columns / 2}});
      break;
    case compressed_layout::nvfp4:
      out.push_back({weight_part::codes, "weight_packed", dtype::u8, {rows, columns / 2}});
      out.push_back({weight_part::global_scale, "weight_global_scale", dtype::f32, {1}});
      break;
  }
  out.push_back({weight_part::scales,
                 "weight_scale",
                 m.scale_type(),
                 {rows, groups},
                 m.scheme.layout == compressed_layout::nvfp4});
  return out;
}

core::result<std::vector<group_scale>> scales_of(const compressed_matrix& m, std::span<const float> values,
                                                 uint64_t first_row, float global) {
  const auto format = m.scheme.codes();
  std::vector<group_scale> out;
  out.reserve(values.size() / m.group());
  for (size_t at = 0; at < values.size(); at += m.group()) {
    auto scale = kernels::scale_of(format, values.subspan(at, m.group()), global);
    if (!scale)
      return fail(scale.error().in(fmt::format("row {}, {}", first_row + at / m.columns,
                                               core::range_text("column", at % m.columns, m.group()))));
    out.push_back(*scale);
  }
  return out;
}

void encode_rows(const compressed_matrix& m, std::span<const float> values, std::span<const group_scale> scales,
                 float global, std::span<std::byte> out) {
  const auto format = m.scheme.codes();
  std::vector<uint8_t> codes(m.columns), packed(m.code_row_bytes());
  for (uint64_t row = 0; row * m.columns < values.size(); ++row) {
    const auto of_row = values.subspan(row * m.columns, m.columns);
    for (uint64_t g = 0; g < m.groups_of_row(); ++g)
      kernels::encode(format, scales[row * m.groups_of_row() + g], of_row.subspan(g * m.group(), m.group()),
                      std::span(codes).subspan(g * m.group(), m.group()), global);
    if (is_packed(m.scheme))
      kernels::pack_integers(codes, m.scheme.bits, as<uint32_t>(packed));
    else if (format.kind == code_kind::e2m1)
      kernels::pack_halves(codes, packed);
    else
      packed = codes;
    std::memcpy(out.data() + row * packed.size(), packed.data(), packed.size());
  }
}

void decode_rows(const compressed_matrix& m, std::span<const std::byte> stored, std::span<const group_scale> scales,
                 float global, std::span<float> values) {
  const auto format = m.scheme.codes();
  const auto type = m.scheme.value_type();
  std::vector<uint8_t> codes(m.columns), packed(m.code_row_bytes());
  std::vector<std::byte> rounded(m.columns * core::size_of(type));
  for (uint64_t row = 0; row * m.columns < values.size(); ++row) {
    std::memcpy(packed.data(), stored.data() + row * packed.size(), packed.size());
    if (is_packed(m.scheme))
      kernels::unpack_integers(as<uint32_t>(packed), m.scheme.bits, codes);
    else if (format.kind == code_kind::e2m1)
      kernels::unpack_halves(packed, codes);
    else
      codes = packed;
    const auto of_row = values.subspan(row * m.columns, m.columns);
    for (uint64_t g = 0; g < m.groups_of_row(); ++g)
      kernels::decode(format, scales[row * m.groups_of_row() + g], std::span(codes).subspan(g * m.group(), m.group()),
                      of_row.subspan(g * m.group(), m.group()), global);
    if (type == dtype::f32) continue;
    auto* const floats = reinterpret_cast<std::byte*>(of_row.data());
    cast_elements(dtype::f32, floats, type, rounded.data(), m.columns);
    cast_elements(type, rounded.data(), dtype::f32, floats, m.columns);
  }
}

void encode_scales(const compressed_matrix& m, std::span<const group_scale> scales, std::span<std::byte> out) {
  const auto type = m.scale_type();
  for (size_t i = 0; i < scales.size(); ++i) {
    const float scale = scales[i].scale;
    if (type != dtype::u8)
      cast_elements(dtype::f32, reinterpret_cast<const std::byte*>(&scale), type, out.data() + i * core::size_of(type),
                    1);
    else if (m.scheme.layout == compressed_layout::nvfp4)
      out[i] = std::byte{kernels::e4m3_from_float(scale)};
    else
      out[i] = static_cast<std::byte>(std::ilogb(scale) + 127);
  }
}

core::result<void> decode_scales(const compressed_matrix& m, std::span<const std::byte> stored, uint64_t first_row,
                                 std::span<group_scale> scales) {
  const auto type = m.scale_type();
  for (size_t i = 0; i < scales.size(); ++i) {
    float& scale = scales[i].scale;
    if (type != dtype::u8)
      cast_elements(type, stored.data() + i * core::size_of(type), dtype::f32, reinterpret_cast<std::byte*>(&scale), 1);
    else if (m.scheme.layout == compressed_layout::nvfp4)
      scale = kernels::float_from_e4m3(std::to_integer<uint8_t>(stored[i]));
    else
      scale = kernels::float_from_e8m0(std::to_integer<uint8_t>(stored[i]));
    if (std::isfinite(scale) && scale > 0) continue;
    return fail(error_kind::bad_input, fmt::format("row {}, group {}: a scale above 0 was wanted, got {}",
                                                   first_row + i / m.groups_of_row(), i % m.groups_of_row(), scale));
  }
  return {};
}

zero_rows words_of_rows(const compressed_matrix& m, uint64_t first_row, uint64_t rows) {
  if (!is_packed(m.scheme)) return {first_row, rows, first_row, rows};
  const uint64_t first = first_row * m.scheme.bits / word_bits;
  return {first, core::div_up((first_row + rows) * m.scheme.bits, word_bits) - first, first_row, rows};
}

zero_rows rows_of_words(const compressed_matrix& m, uint64_t first_word, uint64_t words) {
  if (!is_packed(m.scheme)) return {first_word, words, first_word, words};
  const uint64_t first = first_word * word_bits / m.scheme.bits;
  const uint64_t end = std::min(m.rows, core::div_up((first_word + words) * word_bits, m.scheme.bits));
  return {first_word, words, first, end - first};
}

void encode_zeros(const compressed_matrix& m, const zero_rows& which, std::span<const group_scale> scales,
                  std::span<std::byte> out) {
  const uint64_t groups = m.groups_of_row(), bits = m.scheme.bits;
  if (!is_packed(m.scheme)) {
    for (size_t i = 0; i < scales.size(); ++i) out[i] = static_cast<std::byte>(scales[i].zero);
    return;
  }
  // The buffer has one row of words more than the output, because the zero points of the last row may have bits beyond
  // the words to write.
  std::vector<uint64_t> words((which.words + 1) * groups);
  for (uint64_t r = 0; r < which.rows; ++r)
    for (uint64_t g = 0; g < groups; ++g) {
      const auto code = static_cast<uint64_t>(scales[r * groups + g].zero + half_of(m.scheme));
      const uint64_t bit = (which.first_row + r) * bits, begin = which.first_word * word_bits;
      if (bit < begin) {  // the zero point's first bits are in the word before `which.first_word`
        words[g] |= code >> (begin - bit);
        continue;
      }
      const uint64_t word = (bit - begin) / word_bits, shifted = code << (bit - begin) % word_bits;
      words[word * groups + g] |= shifted & UINT32_MAX;
      words[(word + 1) * groups + g] |= shifted >> word_bits;
    }
  for (uint64_t i = 0; i < which.words * groups; ++i) {
    const auto word = static_cast<uint32_t>(words[i]);
    std::memcpy(out.data() + i * word_bytes, &word, word_bytes);
  }
}

void decode_zeros(const compressed_matrix& m, const zero_rows& which, std::span<const std::byte> stored,
                  uint64_t first_row, std::span<group_scale> scales) {
  const uint64_t groups = m.groups_of_row(), bits = m.scheme.bits;
  for (size_t i = 0; i < scales.size(); ++i) {
    if (!is_packed(m.scheme)) {
      scales[i].zero = static_cast<int8_t>(std::to_integer<uint8_t>(stored[i]));
      continue;
    }
    const uint64_t bit = (first_row + i / groups) * bits - which.first_word * word_bits, word = bit / word_bits;
    uint64_t held = word_at(stored, word * groups + i % groups);
    if (bit % word_bits + bits > word_bits)
      held |= uint64_t{word_at(stored, (word + 1) * groups + i % groups)} << word_bits;
    scales[i].zero = static_cast<int32_t>(held >> bit % word_bits & ((1U << bits) - 1)) - half_of(m.scheme);
  }
}

}  // namespace troupe::formats
