// Converts a tensor view in a torch.save file to pieces: byte ranges of the file with consecutive elements.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/tensors/tensor_list.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {

/// Appends piece `p` of `p.count` elements after those in `out`, or extends the last piece if `p` follows it in the
/// file. Computes `first` of the appended piece. Elements have `element_bytes` bytes.
void add_piece(std::vector<piece>& out, piece p, uint64_t element_bytes);

/// Appends the elements of `t` in row-major order, whatever its strides. More than max_pieces pieces are
/// error_kind::limit.
core::result<void> add_pieces(std::vector<piece>& out, uint32_t file, const torch_tensor& t);

}  // namespace troupe::formats
