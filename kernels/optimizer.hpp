// Any optimizer that treats elements one by one, behind one call. Owns the list of optimizers and the names of their
// moments; whoever holds shards asks here how many moments there are and needs to know no optimizer by name.
// A new one: its own header with options and one fused pass, one more alternative here, one overload in optimizer.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "core/dtype.hpp"
#include "kernels/adamw.hpp"
#include "kernels/optimizer_step.hpp"

namespace troupe::kernels {

using optimizer_options = std::variant<adamw_options>;

/// The most moments that an optimizer keeps for an element.
inline constexpr size_t max_moments = 2;

/// Names of the moments in the order of `optimizer_piece::moments`, as checkpoints spell them.
std::span<const std::string_view> moment_names(const optimizer_options& options);

/// A run of elements with everything that an update reads and writes. State is float, or double in runs that check
/// others.
template <class State>
struct optimizer_piece {
  State* master = nullptr;
  std::array<State*, max_moments> moments{};  ///< the first `moment_names().size()` are set
  const std::byte* gradient = nullptr;
  core::dtype gradient_dtype = core::dtype::f32;  ///< f32, bf16 or f16; f64 where State is double
  std::byte* copy = nullptr;                      ///< null: the master is the parameter itself
  core::dtype copy_dtype = core::dtype::bf16;     ///< f32, bf16 or f16
  uint64_t count = 0;
};

void update(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece);

/// In fp64 throughout. `copy` is not written.
void update(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece);

}  // namespace troupe::kernels
