// Converts the chunks of a tensor in torch.distributed.checkpoint, which are boxes of its elements, to the tensor's
// pieces: shares along one dimension if the elements of every box are then consecutive, else one piece for each row.
// Owns this arithmetic; source.cpp opens the files.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "formats/tensors/tensor_list.hpp"

namespace troupe::formats {

/// A box of a tensor's elements, and where the box is stored, in the box's own row-major order.
struct placed_chunk {
  std::vector<int64_t> offsets, sizes;  ///< first index and size of the box along each dimension; no size is 0
  std::vector<piece> pieces;            ///< stored pieces of the box; `first` counts elements of the box
};

/// Sets the cut and the pieces of `t`, whose shape and type are known, from its chunks. Does not check that they hold
/// every element once; complete() does. Returns error_kind::limit beyond max_pieces.
core::result<void> lay_chunks(tensor_entry& t, const std::vector<placed_chunk>& chunks);

}  // namespace troupe::formats
