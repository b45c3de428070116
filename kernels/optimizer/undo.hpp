// An optimizer's update that can be taken back, bit for bit: what it overwrites is copied first. No inverse of a
// formula: rounding makes every optimizer's update lose bits. Owns no memory.
#pragma once

#include "kernels/optimizer/optimizer.hpp"

namespace troupe::kernels {

/// Bytes that `update_keeping` and `take_back` need for a piece; a multiple of 64.
uint64_t undo_bytes(const optimizer_piece<float>& piece);
uint64_t undo_bytes(const optimizer_piece<double>& piece);

/// `update` (optimizer.hpp), with the weights, moments and 16-bit copy from before it in `undo`. Where the gradient is
/// not finite, neither is what it leaves in the piece.
void update_keeping(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                    std::byte* undo);
void update_keeping(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                    std::byte* undo);

/// The piece as it was before the `update_keeping` that wrote `undo`; `piece` is laid out as it was then.
void take_back(const optimizer_piece<float>& piece, const std::byte* undo);
void take_back(const optimizer_piece<double>& piece, const std::byte* undo);

}  // namespace troupe::kernels
