// The check of a call that updates a piece of a parameter: its memory, its types and the numbers of the step.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "kernels/base/memory_views.hpp"
#include "kernels/base/with_dtype.hpp"
#include "kernels/optimizer/optimizer_piece.hpp"
#include "kernels/optimizer/optimizer_step.hpp"

namespace troupe::kernels {

/// Which memory of a piece a call reads or writes, so that check_piece() knows what must exist and must not overlap.
struct views_of_piece {
  bool masters = true, writes_masters = true, gradient = true;
  size_t moments = 0;
  bool writes_moments = true, copy = true;
};

inline constexpr std::array<std::string_view, max_moments> moment_views{"moment 0", "moment 1"};

template <class State>
constexpr bool is_gradient_type(core::dtype type) {
  return std::is_same_v<State, double> ? type == core::dtype::f64 : is_float(type) && type != core::dtype::f64;
}

/// Checks the piece and the step of a call. `call` names the call in errors, e.g. "an optimizer's update"; `more` is
/// further memory of the call, which must exist and not overlap either. Errors (bad_input): a step 0, a rate or factor
/// that is not finite, and, if the piece has elements, missing memory, a type that no kernel reads, or views that
/// overlap.
template <class State>
core::result<void> check_piece(std::string_view call, const optimizer_step& step, const optimizer_piece<State>& piece,
                               const views_of_piece& has, std::initializer_list<memory_view> more = {}) {
  const auto wanted = [&](const std::string& what) { return core::refused(std::string(call) + ": wanted " + what); };
  if (step.step == 0 || !std::isfinite(step.gradient_scale))
    return wanted(fmt::format("a step from 1 on and a finite factor on the gradient, got step {} and {}", step.step,
                              core::number_text(step.gradient_scale)));
  if (!std::isfinite(step.lr)) return wanted("a finite learning rate, got " + core::number_text(step.lr));
  if (piece.count == 0) return {};
  const bool lacks_masters = has.masters && piece.master == nullptr;
  if (lacks_masters || (has.gradient && piece.gradient == nullptr))
    return wanted(std::string(has.masters ? "masters" : "") + (has.masters && has.gradient ? " and " : "") +
                  (has.gradient ? "a gradient" : "") + ", got none");
  for (size_t k = 0; k < has.moments; ++k)
    if (piece.moments[k] == nullptr)
      return wanted(fmt::format("{}{}, got {}", has.moments, has.moments == 1 ? " moment" : " moments", k));
  for (const auto& view : more)
    if (view.begin == nullptr) return wanted(std::string(view.name) + ", got none");
  if (has.gradient && !is_gradient_type<State>(piece.gradient_dtype))
    return wanted(std::string(std::is_same_v<State, double> ? "a gradient in f64" : "a gradient in f32, bf16 or f16") +
                  ", got " + std::string(core::name_of(piece.gradient_dtype)));
  const bool has_copy = has.copy && piece.copy != nullptr;
  if (has_copy && (std::is_same_v<State, double> || !is_gradient_type<float>(piece.copy_dtype)))
    return wanted("a copy in f32, bf16 or f16 of masters in f32, or none");
  std::vector<memory_view> all;
  const uint64_t state_bytes = piece.count * sizeof(State);
  if (has.masters) all.push_back({"masters", piece.master, state_bytes, has.writes_masters});
  if (has.gradient)
    all.push_back({"a gradient", piece.gradient, piece.count * core::size_of(piece.gradient_dtype), false});
  for (size_t k = 0; k < has.moments; ++k)
    all.push_back({moment_views[k], piece.moments[k], state_bytes, has.writes_moments});
  if (has_copy) all.push_back({"a copy", piece.copy, piece.count * core::size_of(piece.copy_dtype), true});
  all.insert(all.end(), more.begin(), more.end());
  return check_apart(call, all);
}

}  // namespace troupe::kernels
