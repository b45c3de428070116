#include "formats/compressed/decompressed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/math.hpp"
#include "formats/source/element_cast.hpp"
#include "kernels/base/small_floats.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {
namespace {

using kernels::group_scale;

uint64_t bytes_of(const decompressed_weight& w) {
  return w.matrix.rows * w.matrix.columns * core::size_of(w.matrix.scheme.value_type());
}

class values_file final : public storage::input_file {
 public:
  values_file(const std::vector<decompressed_weight>& weights, storage::file_system& files)
      : weights_(weights), files_(files) {}

  [[nodiscard]] uint64_t bytes() const override {
    return weights_.empty() ? 0 : weights_.back().begin_bytes + bytes_of(weights_.back());
  }

  [[nodiscard]] core::result<size_t> read_at(uint64_t offset, std::span<std::byte> out) const override {
    const uint64_t end = std::min(bytes(), offset + out.size());
    auto w = std::ranges::upper_bound(weights_, offset, {}, &decompressed_weight::begin_bytes);
    for (w -= w == weights_.begin() ? 0 : 1; w != weights_.end() && w->begin_bytes < end; ++w) {
      const uint64_t from = std::max(offset, w->begin_bytes), to = std::min(end, w->begin_bytes + bytes_of(*w));
      if (from >= to) continue;
      const auto into = out.subspan(from - offset, to - from);
      if (auto ok = read_weight(*w, from - w->begin_bytes, into); !ok)
        return fail(ok.error().in(fmt::format("tensor '{}'", shown(w->name))));
    }
    return end > offset ? end - offset : 0;
  }

 private:
  /// Reads the bytes of a weight's values from `offset` on.
  core::result<void> read_weight(const decompressed_weight& w, uint64_t offset, std::span<std::byte> out) const {
    const auto& m = w.matrix;
    const auto type = m.scheme.value_type();
    const uint64_t row_bytes = m.columns * core::size_of(type);
    const uint64_t rows_at_once = std::max<uint64_t>(1, decompressed_block_elements / m.columns);
    const uint64_t last = core::div_up(offset + out.size(), row_bytes);
    std::vector<float> values;
    std::vector<std::byte> typed;
    for (uint64_t row = offset / row_bytes; row < last; row += rows_at_once) {
      const uint64_t rows = std::min(rows_at_once, last - row);
      values.resize(rows * m.columns);
      TROUPE_TRY(read_rows(w, row, rows, values));
      typed.resize(rows * row_bytes);
      cast_elements(core::dtype::f32, reinterpret_cast<const std::byte*>(values.data()), type, typed.data(),
                    values.size());
      const uint64_t begin = row * row_bytes, from = std::max(begin, offset);
      const uint64_t to = std::min(begin + typed.size(), offset + out.size());
      std::memcpy(out.data() + (from - offset), typed.data() + (from - begin), to - from);
    }
    return {};
  }

  core::result<void> read_rows(const decompressed_weight& w, uint64_t first, uint64_t rows,
                               std::span<float> values) const {
    if (w.blocks) return read_blocks(w, *w.blocks, first, rows, values);
    const auto& m = w.matrix;
    TROUPE_ASSIGN(auto codes, read_part(w.codes, first * m.code_row_bytes(), rows * m.code_row_bytes()));
    std::vector<group_scale> scales(rows * m.groups_of_row());
    const uint64_t scale_bytes = core::size_of(m.scale_type());
    TROUPE_ASSIGN(auto stored, w.one_scale ? read_part(w.scales, 0, scale_bytes)
                                           : read_part(w.scales, first * m.groups_of_row() * scale_bytes,
                                                       scales.size() * scale_bytes));
    TROUPE_TRY(decode_scales(m, stored, first, std::span(scales).first(w.one_scale ? 1 : scales.size())));
    if (w.one_scale) std::ranges::fill(scales, scales.front());
    if (w.zeros) {
      const auto which = words_of_rows(m, first, rows);
      const uint64_t word_row = m.groups_of_row() * (m.scheme.layout == compressed_layout::pack_quantized ? 4 : 1);
      TROUPE_ASSIGN(auto zeros, read_part(*w.zeros, which.first_word * word_row, which.words * word_row));
      decode_zeros(m, which, zeros, first, scales);
    }
    decode_rows(m, codes, scales, w.global_scale, values);
    return {};
  }

  /// Decodes rows of E4M3 codes, each code times the scale of its block.
  core::result<void> read_blocks(const decompressed_weight& w, const scale_blocks& blocks, uint64_t first,
                                 uint64_t rows, std::span<float> values) const {
    const auto& m = w.matrix;
    const uint64_t across = core::div_up(m.columns, blocks.columns), top = first / blocks.rows;
    const uint64_t down = core::div_up(first + rows, blocks.rows) - top;
    TROUPE_ASSIGN(const auto codes, read_part(w.codes, first * m.columns, rows * m.columns));
    const auto type = m.scheme.scale_type;
    const uint64_t row_bytes = across * core::size_of(type);
    TROUPE_ASSIGN(const auto stored, read_part(w.scales, top * row_bytes, down * row_bytes));
    std::vector<float> scales(down * across);
    cast_elements(type, stored.data(), core::dtype::f32, reinterpret_cast<std::byte*>(scales.data()), scales.size());
    for (size_t i = 0; i < scales.size(); ++i)
      if (!std::isfinite(scales[i]) || scales[i] < 0)
        return fail(error_kind::bad_input, fmt::format("block row {}, block {}: a scale from 0 on was wanted, got {}",
                                                       top + i / across, i % across, scales[i]));
    for (uint64_t r = 0; r < rows; ++r) {
      const float* const of_row = scales.data() + ((first + r) / blocks.rows - top) * across;
      for (uint64_t c = 0; c < m.columns; ++c)
        values[r * m.columns + c] =
            kernels::float_from_e4m3(std::to_integer<uint8_t>(codes[r * m.columns + c])) * of_row[c / blocks.columns];
    }
    return {};
  }

  [[nodiscard]] core::result<std::vector<std::byte>> read_part(const stored_part& part, uint64_t offset,
                                                               uint64_t count) const {
    TROUPE_ASSIGN(auto file, files_.open(part.file.path));
    if (file->bytes() != part.file.bytes)
      return fail(error_kind::io, fmt::format("'{}' was changed while it was read: it had {} bytes and has {} now",
                                              part.file.path.string(), part.file.bytes, file->bytes()));
    TROUPE_ASSIGN(file, file_sums::checked(part.file.sums, std::move(file), part.file.path));
    std::vector<std::byte> out(count);
    TROUPE_TRY(storage::read_exactly(*file, part.file.path, part.offset_bytes + offset, out));
    return out;
  }

  const std::vector<decompressed_weight>& weights_;
  storage::file_system& files_;
};

}  // namespace

core::result<std::unique_ptr<storage::input_file>> decompressed_weights::open(storage::file_system& files) const {
  return std::make_unique<values_file>(weights_, files);
}

void add_decompressed(tensor_source& s, std::vector<decompressed_weight> weights) {
  if (weights.empty()) return;
  const auto number = static_cast<uint32_t>(s.files.size());
  uint64_t at = 0;
  for (auto& w : weights) {
    const auto& m = w.matrix;
    w.begin_bytes = at;
    tensor_entry entry{w.name,
                       tensor_kind::weight,
                       {},
                       m.scheme.value_type(),
                       {static_cast<int64_t>(m.rows), static_cast<int64_t>(m.columns)},
                       {}};
    entry.pieces.push_back({number, 0, m.rows * m.columns, at, {}});
    s.tensors.push_back(std::move(entry));
    at += bytes_of(w);
  }
  s.files.push_back({.path = s.folder / "the values of compressed weights",
                     .bytes = at,
                     .view = std::make_shared<decompressed_weights>(std::move(weights))});
}

}  // namespace troupe::formats
