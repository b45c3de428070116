// The check of a call that updates a piece of a parameter: its memory, its types and the numbers of the step.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "kernels/base/with_dtype.hpp"
#include "kernels/optimizer/optimizer_piece.hpp"
#include "kernels/optimizer/optimizer_step.hpp"

namespace troupe::kernels {

/// Memory that a caller passes to one call of a kernel.
struct memory_view {
  std::string_view name;  ///< name of the memory in messages: "masters", "a gradient"
  const void* begin = nullptr;
  uint64_t bytes = 0;
  bool is_written = false;
};

/// Returns an error that names the first two views of `all` that share bytes while one of them is written. `call` names
/// the kernel in the error, e.g. "an optimizer's update".
inline core::result<void> check_apart(std::string_view call, std::span<const memory_view> all) {
  const auto at = [](const memory_view& v) { return reinterpret_cast<uintptr_t>(v.begin); };
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j) {
      const auto &a = all[i], &b = all[j];
      if ((a.is_written || b.is_written) && at(a) < at(b) + b.bytes && at(b) < at(a) + a.bytes)
        return core::refused(std::string(call) + ": wanted views that overlap nowhere in memory, got " +
                             std::string(a.name) + " and " + std::string(b.name) + " that share bytes");
    }
  return {};
}

inline constexpr std::array<std::string_view, max_moments> moment_views{"moment 0", "moment 1"};

template <class State>
constexpr bool is_gradient_type(core::dtype type) {
  return std::is_same_v<State, double> ? type == core::dtype::f64 : is_float(type) && type != core::dtype::f64;
}

/// Checks the piece, of which `moments` moments are used, and the step of a call. `call` names the call in errors, e.g.
/// "an optimizer's update". Errors (bad_input): a step 0, a rate or factor that is not finite, and, if the piece has
/// elements, missing memory, a type that no kernel reads, or views that overlap.
template <class State>
core::result<void> check_piece(std::string_view call, const optimizer_step& step, const optimizer_piece<State>& piece,
                               size_t moments) {
  const auto wanted = [&](const std::string& what) { return core::refused(std::string(call) + ": wanted " + what); };
  if (step.step == 0 || !std::isfinite(step.gradient_scale))
    return wanted(fmt::format("a step from 1 on and a finite factor on the gradient, got step {} and {}", step.step,
                              core::number_text(step.gradient_scale)));
  if (!std::isfinite(step.lr)) return wanted("a finite learning rate, got " + core::number_text(step.lr));
  if (piece.count == 0) return {};
  if (piece.master == nullptr || piece.gradient == nullptr) return wanted("masters and a gradient, got none");
  for (size_t k = 0; k < moments; ++k)
    if (piece.moments[k] == nullptr)
      return wanted(fmt::format("{}{}, got {}", moments, moments == 1 ? " moment" : " moments", k));
  if (!is_gradient_type<State>(piece.gradient_dtype))
    return wanted(std::string(std::is_same_v<State, double> ? "a gradient in f64" : "a gradient in f32, bf16 or f16") +
                  ", got " + std::string(core::name_of(piece.gradient_dtype)));
  const bool has_copy = piece.copy != nullptr;
  if (has_copy && (std::is_same_v<State, double> || !is_gradient_type<float>(piece.copy_dtype)))
    return wanted("a copy in f32, bf16 or f16 of masters in f32, or none");
  const uint64_t state_bytes = piece.count * sizeof(State);
  std::vector<memory_view> all{
      {"masters", piece.master, state_bytes, true},
      {"a gradient", piece.gradient, piece.count * core::size_of(piece.gradient_dtype), false}};
  for (size_t k = 0; k < moments; ++k) all.push_back({moment_views[k], piece.moments[k], state_bytes, true});
  if (has_copy) all.push_back({"a copy", piece.copy, piece.count * core::size_of(piece.copy_dtype), true});
  return check_apart(call, all);
}

}  // namespace troupe::kernels
