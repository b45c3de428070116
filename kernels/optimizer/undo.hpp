// An optimizer's update that can be undone, bit for bit: before it updates a piece, it copies the bytes that it will
// overwrite. Computing the inverse of the formulas would not restore the bits, because every update rounds. Owns no
// memory.
#pragma once

#include "kernels/optimizer/optimizer.hpp"

namespace troupe::kernels {

/// Returns the size in bytes of the undo memory that `update_keeping` and `take_back` need for a piece; a multiple of
/// 64.
uint64_t undo_bytes(const optimizer_piece<float>& piece);
uint64_t undo_bytes(const optimizer_piece<double>& piece);

/// Copies the weights, moments, `piece.average` and `piece.copy` to `undo`, then updates the piece as
/// update_unchecked() of optimizer.hpp does. If the gradient is not finite, the updated piece is not finite, either;
/// take_back() restores it.
void update_keeping(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                    std::byte* undo);
void update_keeping(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                    std::byte* undo);

/// Restores the weights, moments, average and copy that the piece had before the `update_keeping` that wrote `undo`.
/// `piece` must have the same size and arrays as in that call.
void take_back(const optimizer_piece<float>& piece, const std::byte* undo);
void take_back(const optimizer_piece<double>& piece, const std::byte* undo);

}  // namespace troupe::kernels
