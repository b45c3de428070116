// Computes which elements of a tensor its pieces hold, for whole tensors and for tensors that are cut over
// tensor-parallel coordinates. Does not look at where pieces are stored in files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/tp_slices.hpp"
#include "formats/tensors/tensor_list.hpp"

namespace troupe::formats {

/// Largest number of shares (tensor-parallel coordinates) of one tensor, and largest number of parts of one cut.
inline constexpr size_t max_shares = 4096, max_cut_parts = 16;

/// Checks that the cut of `t` fits its shape and that its pieces hold each of its `elements` elements once, in order.
/// The error names the tensor.
core::result<void> check_shares(const tensor_entry& t, uint64_t elements);

/// Returns the piece as text for messages: "elements 0 to 383 of share 1 of tensor 'h.0.bias' (master)".
std::string shown(const tensor_entry& t, const piece& p);

/// Finds the pieces that hold given elements of a tensor. The tensor must have passed check_shares(), and must outlive
/// this object.
class tensor_shares {
 public:
  explicit tensor_shares(const tensor_entry& t);

  /// Elements [first, first + count) of one piece, in the numbering of the piece.
  struct part {
    const piece* in = nullptr;
    uint64_t first = 0, count = 0;
  };
  /// Returns the parts of pieces that hold elements [first, first + count) of the tensor.
  [[nodiscard]] std::vector<part> parts_of(uint64_t first, uint64_t count) const;

  /// Returns the slices of the share whose elements piece `p` counts; all of the tensor if it is not cut.
  [[nodiscard]] const core::tp_slices& share_of(const piece& p) const { return shares_[p.share]; }

 private:
  const tensor_entry& tensor_;
  std::vector<core::tp_slices> shares_;  // slices of each share, by tensor-parallel coordinate
};

/// Returns the tensor with pieces that count elements of the whole tensor, none longer than a row of a share, for
/// formats that cut tensors differently. If the tensor is cut, the new pieces have no digests.
tensor_entry without_shares(const tensor_entry& t);

}  // namespace troupe::formats
