#include "actors/hands/activation_windows.hpp"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <utility>

#include "core/math.hpp"
#include "core/model_table.hpp"

namespace troupe::actors {

core::result<models::values> activation_windows::put(uint32_t unit, const std::string& name,
                                                     const models::values& input, std::span<std::byte> window) {
  std::vector<layout> layouts;
  uint64_t end = 0;
  for (const at::Tensor& t : input) {
    const auto shape = t.is_non_overlapping_and_dense() ? t : t.contiguous();
    const uint64_t offset = core::round_up(end, core::input_alignment);
    layouts.push_back({offset, t.sizes().vec(), shape.strides().vec(), t.scalar_type()});
    end = offset + t.nbytes();
  }
  if (end > window.size())
    return core::fail(core::error_kind::bad_input,
                      fmt::format("the input of {}: wanted at most {} bytes, as in the first micro-batch, got {}", name,
                                  window.size(), end));
  layouts_[unit] = std::move(layouts);
  models::values there = get(unit, window.data());
  for (size_t i = 0; i < input.size(); ++i) there[i].copy_(input[i]);
  return there;
}

models::values activation_windows::get(uint32_t unit, std::byte* window) const {
  std::vector<at::Tensor> out;
  for (const layout& l : layouts_[unit])
    out.push_back(at::from_blob(window + l.offset, l.sizes, l.strides, at::TensorOptions().dtype(l.type)));
  return models::values(std::move(out));
}

}  // namespace troupe::actors
