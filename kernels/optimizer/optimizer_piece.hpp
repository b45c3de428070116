// A piece: consecutive elements of a parameter, with addresses of all data that an optimizer reads and writes for them.
// Owns no memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Largest number of moments that an optimizer keeps for an element.
inline constexpr size_t max_moments = 2;

/// Consecutive elements of a parameter to update. `State` is the type of master weights and moments: float, or double
/// in fp64 runs, with which other runs are compared.
template <class State>
struct optimizer_piece {
  State* master = nullptr;
  /// Moments of the elements; the first `moment_names().size()` pointers are set.
  std::array<State*, max_moments> moments{};
  /// Moving average of the weights, which no update changes itself: undo.hpp saves and restores it; null: there is
  /// none.
  State* average = nullptr;
  const std::byte* gradient = nullptr;
  core::dtype gradient_dtype = core::dtype::f32;  ///< dtype of the gradient: f32, bf16 or f16; f64 if State is double
  /// The parameter in the type that the model computes in, rounded from the master; null: the master is the parameter.
  std::byte* copy = nullptr;
  core::dtype copy_dtype = core::dtype::bf16;  ///< dtype of `copy`: f32, bf16 or f16
  uint64_t count = 0;
  uint32_t parameter = 0;  ///< number of the parameter; for rules of an embedding program
  uint64_t first = 0;      ///< number of the piece's first element in the parameter; for these rules, too
};

/// Returns the piece that consists of elements [first, first + count) of `piece`.
template <class State>
optimizer_piece<State> part_of(const optimizer_piece<State>& piece, uint64_t first, uint64_t count) {
  auto out = piece;
  out.master += first;
  for (State*& moment : out.moments)
    if (moment != nullptr) moment += first;
  if (out.average != nullptr) out.average += first;
  out.gradient += first * core::size_of(piece.gradient_dtype);
  if (out.copy != nullptr) out.copy += first * core::size_of(piece.copy_dtype);
  out.count = count;
  out.first += first;
  return out;
}

}  // namespace troupe::kernels
