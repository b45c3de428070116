// Which elements of a tensor its pieces hold. Owns this arithmetic, for tensors that are whole and such that are cut
// over tensor coordinates; where pieces lie in files is not looked at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/files/tensor_list.hpp"
#include "core/error.hpp"
#include "core/tp_slices.hpp"

namespace troupe::checkpoint {

/// Coordinates and parts of a cut.
inline constexpr size_t max_shares = 4096, max_cut_parts = 16;

/// Whether a tensor of this many elements has a cut of its shape and pieces that hold every element once, in order. The
/// error names the tensor.
core::result<void> check_shares(const tensor_entry& t, uint64_t elements);

/// "elements 0 to 384 of share 1 of tensor 'h.0.bias' (master)": for messages.
std::string shown(const tensor_entry& t, const piece& p);

/// Of a tensor that `check_shares` accepts and that outlives it.
class tensor_shares {
 public:
  explicit tensor_shares(const tensor_entry& t);

  struct part {  ///< elements [first, first + count), as the piece counts them
    const piece* in = nullptr;
    uint64_t first = 0, count = 0;
  };
  /// Those that hold elements [first, first + count) of the tensor, and nothing else.
  [[nodiscard]] std::vector<part> parts_of(uint64_t first, uint64_t count) const;

  /// Whose elements a piece counts: all of the tensor's where it is not cut.
  [[nodiscard]] const core::tp_slices& share_of(const piece& p) const { return shares_[p.share]; }

 private:
  const tensor_entry& tensor_;
  std::vector<core::tp_slices> shares_;  // [coordinate]
};

/// The same tensor with pieces that count its own elements, none longer than a share's row: for formats that cut it in
/// another way. They have no digests.
tensor_entry without_shares(const tensor_entry& t);

}  // namespace troupe::checkpoint
