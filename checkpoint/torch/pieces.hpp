// Converts a view in a torch.save file to pieces of the file.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/files/tensor_list.hpp"
#include "checkpoint/torch/archive.hpp"

namespace troupe::checkpoint {

/// Appends `p` to the pieces in `out`, or extends the last one if `p` directly follows it; sets `p.first`. Elements
/// have `element_bytes` bytes.
void add_piece(std::vector<piece>& out, piece p, uint64_t element_bytes);

/// Appends the elements of `t` in row-major order, whatever its strides. More than max_pieces pieces are
/// error_kind::limit.
core::result<void> add_pieces(std::vector<piece>& out, uint32_t file, const torch_tensor& t);

}  // namespace troupe::checkpoint
