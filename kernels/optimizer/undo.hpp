// An optimizer's update that can be undone, bit for bit: it first copies the bytes that it overwrites. An inverse
// formula would not do: rounding makes every optimizer's update lose bits. Owns no memory.
#pragma once

#include "kernels/optimizer/optimizer.hpp"

namespace troupe::kernels {

/// Returns the bytes that `update_keeping` and `take_back` need for a piece; a multiple of 64.
uint64_t undo_bytes(const optimizer_piece<float>& piece);
uint64_t undo_bytes(const optimizer_piece<double>& piece);

/// Calls `update` (optimizer.hpp), after copying the weights, moments and 16-bit copy to `undo`. If the gradient is not
/// finite, the updated piece is not finite, either.
void update_keeping(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                    std::byte* undo);
void update_keeping(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                    std::byte* undo);

/// Restores the piece as it was before the `update_keeping` that wrote `undo`; `piece` is laid out as it was then.
void take_back(const optimizer_piece<float>& piece, const std::byte* undo);
void take_back(const optimizer_piece<double>& piece, const std::byte* undo);

}  // namespace troupe::kernels
