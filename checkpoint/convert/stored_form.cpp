#include "checkpoint/convert/stored_form.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>

#include "formats/safetensors/header.hpp"
#include "kernels/base/cast.hpp"
#include "kernels/base/half.hpp"
#include "kernels/compress/block_codes.hpp"

namespace troupe::checkpoint {
namespace {

using kernels::group_scale;

/// Stores a matrix as integers or floating-point codes in the formats of compressed-tensors.
class compressed_form final : public stored_form {
 public:
  explicit compressed_form(const formats::compressed_matrix& m) : stored_form(m.rows, m.columns), m_(m) {}

  [[nodiscard]] std::string name() const override {
    const auto codes = m_.scheme.codes();
    return codes.kind == kernels::code_kind::integer ? fmt::format("int{}", m_.scheme.bits)
                                                     : std::string(formats::name_of(m_.scheme.layout));
  }

  [[nodiscard]] core::result<void> round(std::span<float> values, std::span<const float>) const override {
    auto m = m_;
    m.rows = values.size() / m.columns;
    float global = 1;
    if (m.scheme.layout == formats::compressed_layout::nvfp4) {
      float largest = 0;
      for (const float x : values) largest = std::max(largest, std::fabs(x));
      global = kernels::global_scale_of(largest);
    }
    TROUPE_ASSIGN(const auto scales, formats::scales_of(m, values, 0, global));
    std::vector<std::byte> stored(m.rows * m.code_row_bytes());
    formats::encode_rows(m, values, scales, global, stored);
    formats::decode_rows(m, stored, scales, global, values);
    return {};
  }

  [[nodiscard]] uint64_t group() const override {
    return m_.scheme.codes().kind == kernels::code_kind::integer ? m_.group() : 0;
  }

  [[nodiscard]] core::result<affine_grid> fit(std::span<const float> group) const override {
    TROUPE_ASSIGN(const auto s, kernels::scale_of(m_.scheme.codes(), group));
    const int32_t half = int32_t{1} << (m_.scheme.bits - 1);
    return affine_grid{s.scale, -s.scale * static_cast<float>(s.zero), -half, half - 1};
  }

  [[nodiscard]] std::optional<affine_grid> grid_with(float scale) const override {
    if (group() == 0 || !m_.scheme.symmetric) return std::nullopt;
    std::array<std::byte, sizeof(float)> held{};
    auto* const value = reinterpret_cast<std::byte*>(&scale);
    kernels::cast(value, core::dtype::f32, held.data(), m_.scale_type(), 1);
    kernels::cast(held.data(), m_.scale_type(), value, core::dtype::f32, 1);
    const int32_t half = int32_t{1} << (m_.scheme.bits - 1);
    return affine_grid{scale, 0, -half, half - 1};
  }

  [[nodiscard]] core::result<std::vector<stored_bytes>> pack(std::span<const affine_grid> grids,
                                                             std::span<const int16_t> q) const override {
    std::vector<group_scale> scales;
    for (const auto& g : grids) scales.push_back({g.scale, static_cast<int32_t>(std::lround(-g.offset / g.scale))});
    // encode_rows() accepts values, not codes: `q` is decoded to fp32 values, which round to the same codes again.
    std::vector<float> values(q.size());
    for (size_t i = 0; i < q.size(); ++i) {
      const auto& s = scales[i / m_.group()];
      values[i] = static_cast<float>(q[i] - s.zero) * s.scale;
    }
    std::vector<stored_bytes> out;
    for (const auto& part : formats::parts_of(m_)) {
      if (part.part == formats::weight_part::shape) continue;
      std::vector<std::byte> bytes(formats::bytes_of(part.type, part.shape).value_or(0));
      if (part.part == formats::weight_part::codes) formats::encode_rows(m_, values, scales, 1, bytes);
      if (part.part == formats::weight_part::scales) formats::encode_scales(m_, scales, bytes);
      if (part.part == formats::weight_part::zeros)
        formats::encode_zeros(m_, formats::words_of_rows(m_, 0, m_.rows), scales, bytes);
      out.push_back({part.part, std::move(bytes)});
    }
    return out;
  }

 private:
  formats::compressed_matrix m_;
};

/// Stores a matrix as blocks of a GGUF type, along the input dimension.
class block_form final : public stored_form {
 public:
  block_form(formats::gguf_type type, kernels::block_format format, uint64_t rows, uint64_t columns)
      : stored_form(rows, columns), type_(type), format_(format) {}

  [[nodiscard]] std::string name() const override { return std::string(formats::name_of(type_)); }

  [[nodiscard]] core::result<void> round(std::span<float> values, std::span<const float> importance) const override {
    const uint64_t blocks = values.size() / kernels::elements_of(format_);
    std::vector<std::byte> stored(blocks * kernels::bytes_of(format_));
    const uint64_t refused =
        importance.empty()
            ? kernels::quantise_blocks(format_, values.data(), blocks, stored.data())
            : kernels::quantise_blocks_weighted(format_, values.data(), importance.data(),
                                                columns() / kernels::elements_of(format_), blocks, stored.data());
    if (refused != kernels::no_block) return beyond();
    kernels::dequantise_blocks(format_, stored.data(), blocks, values.data());
    return {};
  }

  [[nodiscard]] uint64_t group() const override {
    return kernels::has_block_grid(format_) ? kernels::elements_of(format_) : 0;
  }

  [[nodiscard]] core::result<affine_grid> fit(std::span<const float> group) const override {
    std::array<std::byte, 64> block{};
    if (kernels::quantise_blocks(format_, group.data(), 1, block.data()) != kernels::no_block) return beyond();
    const auto g = kernels::grid_of(format_, block.data());
    return affine_grid{g.scale, g.offset, g.low, g.high};
  }

  [[nodiscard]] std::optional<affine_grid> grid_with(float scale) const override {
    if (group() == 0) return std::nullopt;
    const std::array<std::byte, 64> nothing{};
    const auto g = kernels::grid_of(format_, nothing.data());
    scale = kernels::widen(kernels::narrow<kernels::f16>(scale));
    // If the format's codes start at 0, the grid is shifted by half the range of codes, so that half of its values are
    // negative.
    return affine_grid{scale, g.low < 0 ? 0 : -scale * static_cast<float>((g.high + 1) / 2), g.low, g.high};
  }

  [[nodiscard]] core::result<std::vector<stored_bytes>> pack(std::span<const affine_grid> grids,
                                                             std::span<const int16_t> q) const override {
    std::vector<std::byte> bytes(grids.size() * kernels::bytes_of(format_));
    for (size_t b = 0; b < grids.size(); ++b) {
      const auto& g = grids[b];
      kernels::pack_block(format_, {g.scale, g.offset, g.low, g.high}, q.subspan(b * 32).first<32>(),
                          bytes.data() + b * kernels::bytes_of(format_));
    }
    std::vector<stored_bytes> out;
    out.push_back({formats::weight_part::codes, std::move(bytes)});
    return out;
  }

 private:
  [[nodiscard]] tl::unexpected<core::error> beyond() const {
    return fail(error_kind::numeric, fmt::format("a value that {} cannot hold: NaN, infinite or too large", name()));
  }

  formats::gguf_type type_;
  kernels::block_format format_;
};

}  // namespace

core::result<affine_grid> stored_form::fit(std::span<const float>) const {
  return fail(error_kind::bug, name() + " has no grids");
}
core::result<std::vector<stored_bytes>> stored_form::pack(std::span<const affine_grid>,
                                                          std::span<const int16_t>) const {
  return fail(error_kind::bug, name() + " has no grids");
}

std::shared_ptr<const stored_form> form_of(const formats::compressed_matrix& m) {
  return std::make_shared<compressed_form>(m);
}

std::shared_ptr<const stored_form> form_of(formats::gguf_type type, uint64_t rows, uint64_t columns) {
  const auto format = formats::blocks_of(type);
  if (!format) return nullptr;
  return std::make_shared<block_form>(type, *format, rows, columns);
}

}  // namespace troupe::checkpoint
