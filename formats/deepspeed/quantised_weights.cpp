#include "formats/deepspeed/quantised_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"

namespace troupe::formats {

core::result<quantised_values> quantise(std::span<const float> weight, uint32_t bits, uint32_t groups) {
  if (bits < 2 || bits > 8) return fail(error_kind::bad_input, fmt::format("wanted 2 to 8 bits, got {}", bits));
  if (groups == 0 || weight.empty() || weight.size() % groups != 0)
    return fail(error_kind::bad_input,
                fmt::format("{} elements cannot be divided into {} groups", weight.size(), groups));
  const size_t size = weight.size() / groups;
  const auto top = static_cast<float>(1U << bits);
  const float least = -static_cast<float>(1U << (bits - 1)), most = -least - 1;
  quantised_values out;
  out.values.resize(weight.size());
  for (size_t first = 0; first < weight.size(); first += size) {
    float largest = 0;
    for (const float x : weight.subspan(first, size)) largest = std::max(largest, std::fabs(x));
    const float scale = 1.0F / (2.0F * largest + 1e-5F) * top;
    if (std::isinf(largest))
      return fail(error_kind::numeric,
                  fmt::format("an infinite value is among {}", core::range_text("element", first, size)));
    for (size_t i = first; i < first + size; ++i) {
      if (std::isnan(weight[i])) return fail(error_kind::numeric, fmt::format("element {} is not a number (NaN)", i));
      out.values[i] = static_cast<int8_t>(std::clamp(std::nearbyint(weight[i] * scale), least, most));
    }
    out.scales.push_back(1.0F / scale);
  }
  return out;
}

bool looks_like_mlp(int64_t rows, int64_t columns, uint32_t ranks, uint32_t files) {
  const double n = static_cast<double>(ranks) * files, r = static_cast<double>(rows), c = static_cast<double>(columns);
  return n * r == 4 * c || n * c == 4 * r;
}

std::optional<layer_matrix> layer_matrix_of(std::string_view name) {
  const auto has = [&](std::string_view fragment) { return name.find(fragment) != std::string_view::npos; };
  if (has("attention.query_key_value.weight")) return layer_matrix::query_key_value;
  if (has("attention.dense.weight")) return layer_matrix::dense;
  if (has("mlp.dense_h_to_4h.weight")) return layer_matrix::h_to_4h;
  if (has("mlp.dense_4h_to_h.weight")) return layer_matrix::four_h_to_h;
  return std::nullopt;
}

scale_table scale_table_of(const std::vector<std::vector<float>> (&rows)[4]) {
  scale_table out;
  out.layers = std::min({rows[0].size(), rows[1].size(), rows[2].size(), rows[3].size()});
  for (const auto& matrix : rows)
    for (size_t l = 0; l < out.layers; ++l) out.width = std::max(out.width, matrix[l].size());
  out.values.assign(out.layers * 4 * out.width, 0.0F);
  for (size_t l = 0; l < out.layers; ++l)
    for (size_t m = 0; m < 4; ++m)
      std::ranges::copy(rows[m][l], out.values.begin() + static_cast<ptrdiff_t>((l * 4 + m) * out.width));
  return out;
}

}  // namespace troupe::formats
