// Writes tensors into a slot (memory that the plan reserves) that another rank or pipeline stage reads: the elements
// from the slot's begin, and headers with types, shapes and strides at its end, so that the receiver needs no other
// description and computes on the same tensors as in a run without a pipeline. rank_memory owns the slots; the fabric
// moves their bytes.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/error.hpp"
#include "models/segment/values.hpp"

namespace troupe::actors {

/// Largest number of dimensions of a transferred tensor.
inline constexpr size_t transferred_dimensions_max = 7;

/// Copies the tensors `all` into `slot`, aligned, each in its order of dimensions. An undefined tensor (a gradient that
/// is not needed) is undefined for the receiver, too. Returns an error if the slot is too small; `from` is the name
/// of the unit that made them, for the error text.
core::result<void> put_transferred(const models::values& all, std::span<std::byte> slot, const std::string& from);

/// Copies rows `first` to `first` + `count` - 1 of the contiguous tensor `t` (.., C) to `slot`, which in the end holds
/// all rows of `t` one after the other; rows beyond the last are left out. Writes the header together with row 0.
/// Returns an error if the slot is too small for `t`.
core::result<void> put_rows(const at::Tensor& t, int64_t first, int64_t count, std::span<std::byte> slot,
                            const std::string& from);

/// Layout of a slot through which `count` ranks exchange tensors of equal sizes, one after the other.
struct slot_parts {
  /// For a gather: index of the part that this rank provides. None: this rank provides one part for each rank.
  std::optional<uint32_t> own = {};
  uint32_t count = 1;
  uint64_t bytes = 0;       ///< bytes of the slot that are reserved for each part
  uint64_t given_at = 0;    ///< byte offset in the slot at which the parts that this rank provides begin
  bool become_one = false;  ///< true: the exchange sums the parts that all ranks provide for a rank into one tensor
};
/// Copies into the slot what this rank provides to an exchange: its one part `t`, or its parts for all ranks, `t`
/// (count, ..). After the exchange, transferred() returns one tensor of all parts, (count, ..), or of their sum, (..).
/// Returns an error if the slot is too small for them.
core::result<void> put_parts(const at::Tensor& t, const slot_parts& parts, std::span<std::byte> slot,
                             const std::string& from);

/// Returns the tensors that `slot` holds, as views of its memory. Errors (bug): the slot holds none.
core::result<models::values> transferred(std::span<std::byte> slot);

/// Returns `all`, with a copy in place of each tensor whose memory is in `bytes`; call before that memory is reused.
models::values out_of(std::span<const std::byte> bytes, const models::values& all);

}  // namespace troupe::actors
