// From a view of a file of torch.save to pieces of it.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/files/tensor_list.hpp"
#include "checkpoint/torch/archive.hpp"

namespace troupe::checkpoint {

/// Adds `p` behind the pieces in `out`, as more of the last one where both are neighbours; `p.first` is set. Elements
/// have `element_bytes`.
void add_piece(std::vector<piece>& out, piece p, uint64_t element_bytes);

/// Adds the elements of `t` in row-major order, whatever its strides. Beyond max_pieces is error_kind::limit.
core::result<void> add_pieces(std::vector<piece>& out, uint32_t file, const torch_tensor& t);

}  // namespace troupe::checkpoint
