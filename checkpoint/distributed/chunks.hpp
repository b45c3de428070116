// Boxes of a tensor, each in an item of its own, as pieces of the tensor: along one dimension a cut into shares, where
// that leaves whole stretches, else row by row. Owns this arithmetic; files are opened by source.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/files/tensor_list.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// One box of a tensor and where its elements lie, in the box's own order.
struct placed_chunk {
  std::vector<int64_t> offsets, sizes;  ///< none of the sizes is 0
  std::vector<piece> pieces;            ///< `first` counts elements of the box
};

/// Gives `t`, of known shape and type, the cut and the pieces of its chunks. Whether they hold every element once is
/// left to complete(). Beyond max_pieces is error_kind::limit.
core::result<void> lay_chunks(tensor_entry& t, const std::vector<placed_chunk>& chunks);

}  // namespace troupe::checkpoint
