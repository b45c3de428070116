#include "actors/hands/activation_windows.hpp"

#include <ATen/ops/from_blob.h>

namespace troupe::actors {

core::result<at::Tensor> activation_windows::put(uint32_t unit, const std::string& name, const at::Tensor& input,
                                                 std::span<std::byte> window) {
  if (input.nbytes() > window.size())
    return core::fail(core::error_kind::bad_input,
                      "the input of " + name + ": wanted at most " + std::to_string(window.size()) +
                          " bytes, as in the first micro-batch, got " + std::to_string(input.nbytes()));
  auto& l = layouts_[unit];
  l.type = input.scalar_type();
  l.sizes = input.sizes().vec();
  const auto shape = input.is_non_overlapping_and_dense() ? input : input.contiguous();
  l.strides = shape.strides().vec();
  at::Tensor there = get(unit, window.data());
  there.copy_(input);
  return there;
}

at::Tensor activation_windows::get(uint32_t unit, std::byte* window) const {
  const auto& l = layouts_[unit];
  return at::from_blob(window, l.sizes, l.strides, at::TensorOptions().dtype(l.type));
}

at::Tensor out_of_window(const at::Tensor& t, const std::byte* window) {
  return t.has_storage() && t.storage().data() == window ? t.clone() : t;
}

}  // namespace troupe::actors
