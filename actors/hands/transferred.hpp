// Passes tensors between the stages of a pipeline: elements in a slot of the plan, and after them headers with their
// types, shapes and strides, so that the receiver needs no other description and computes on the same tensors as in a
// run without a pipeline. rank_memory owns the slots; the fabric moves them.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/error.hpp"
#include "models/segment/values.hpp"

namespace troupe::actors {

/// Largest number of dimensions of a transferred tensor.
inline constexpr size_t transferred_dimensions_max = 7;

/// Copies tensors into `slot`, without gaps, each in its order of dimensions; an undefined tensor (a gradient that
/// nothing needs) arrives undefined. Returns an error if they do not fit; `from` names the unit that made them.
core::result<void> put_transferred(const models::values& all, std::span<std::byte> slot, const std::string& from);

/// Copies rows `first` to `first` + `count` - 1 of `t` (.., C), as many of them as it has, to their places in `slot`,
/// where all its elements are contiguous. Writes the header together with row 0. Returns an error if they do not fit.
core::result<void> put_rows(const at::Tensor& t, int64_t first, int64_t count, std::span<std::byte> slot,
                            const std::string& from);

/// Tensors of equal sizes in a slot, one after the other, that `count` ranks exchange.
struct slot_parts {
  /// For a gather the index of this rank's part; none: this rank provides a part for each rank.
  std::optional<uint32_t> own = {};
  uint32_t count = 1;
  uint64_t bytes = 0;       ///< bytes of the slot that are reserved for each part
  uint64_t given_at = 0;    ///< byte offset in the slot of the parts that this rank provides
  bool become_one = false;  ///< true: the exchange adds up the parts for each rank, so that a rank receives one tensor
};
/// Copies this rank's part, or the parts `t` (count, ..) that it provides, into the slot. After the exchange,
/// `transferred` returns one tensor of all parts, (count, ..), or of their sum, (..). Returns an error if they do not
/// fit.
core::result<void> put_parts(const at::Tensor& t, const slot_parts& parts, std::span<std::byte> slot,
                             const std::string& from);

/// Returns the tensors in `slot`, without copying them. Errors (bug): the slot contains none.
core::result<models::values> transferred(std::span<std::byte> slot);

/// Returns the tensors, with copies of those whose bytes are in `bytes`, because that memory is reused.
models::values out_of(std::span<const std::byte> bytes, const models::values& all);

}  // namespace troupe::actors
