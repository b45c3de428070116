// Owns ZenFlow's schedule: of every matrix, the columns with the largest gradients are updated in every step; the
// gradients of the other columns are deferred and applied at fixed steps. This file chooses parameters and steps, and
// computes the bytes needed; the arithmetic is in kernels/optimizer/late_update.hpp. See docs/numerics.md, "Late
// updates".
#pragma once

#include <cstdint>

namespace troupe::plan {

struct rank_plan;

/// Parameters of late updates. Times are counts of applied updates, which are equal on all ranks. Off if
/// `update_interval` is 0.
struct late_updates {
  double share = 0.1;            ///< share of a matrix's columns that every step updates
  uint64_t update_interval = 0;  ///< number of updates from one application of the deferred gradients to the next
  /// Number of updates from one choice of columns to the next; a multiple of update_interval.
  uint64_t select_interval = 0;
  uint64_t warm_up = 0;  ///< number of first updates that update all columns
  bool operator==(const late_updates&) const = default;

  [[nodiscard]] bool on() const { return update_interval > 0; }
  /// True if update `t`, counted from 1, updates all columns.
  [[nodiscard]] bool whole(uint64_t t) const { return t <= warm_up; }
  /// True if update `t` chooses columns before it does anything else.
  [[nodiscard]] bool chooses(uint64_t t) const { return (t - warm_up - 1) % select_interval == 0; }
  /// True if update `t` applies the deferred gradients, including the gradients that update `t` itself would defer.
  [[nodiscard]] bool lands(uint64_t t) const { return (t - warm_up) % update_interval == 0; }
};

/// Values that the configuration's `auto` means: updates from one application of deferred gradients to the next, and
/// the number of such intervals after which the columns that are updated at once are chosen anew.
inline constexpr uint64_t default_update_interval = 4, default_selections = 4;

/// True if gradients of `parameter` are deferred on this rank: a trained matrix whose update needs only elements, and
/// of which this rank updates a part.
[[nodiscard]] bool defers(const rank_plan& p, uint32_t parameter);
/// Returns the offset of the deferred gradients of `parameter`, in elements from the start of all deferred gradients.
/// Requires `defers(p, parameter)`.
[[nodiscard]] uint64_t deferred_offset(const rank_plan& p, uint32_t parameter);
/// Bytes of the deferred gradients in the dtype of master weights, and of a flag and a sum for each column.
[[nodiscard]] uint64_t deferred_bytes(const rank_plan& p);
/// Returns the number of deferred gradient elements of a rank; the counters of columns, which follow them in the same
/// buffer, are not counted.
[[nodiscard]] uint64_t deferred_elements(const rank_plan& p);

}  // namespace troupe::plan
