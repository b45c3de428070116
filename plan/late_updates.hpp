// ZenFlow's schedule: of every matrix, the columns with the largest gradients are updated in every step; the others'
// gradients are deferred and applied at fixed steps. Owns the choice of parameters and steps, and the bytes needed; the
// arithmetic is kernels/optimizer/late_update.hpp's. See docs/numerics.md, "Late updates".
#pragma once

#include <cstdint>

namespace troupe::plan {

struct rank_plan;

/// Counts of applied updates; the same on all ranks. Off where `update_interval` is 0.
struct late_updates {
  double share = 0.1;            ///< of a matrix's columns, updated in every step
  uint64_t update_interval = 0;  ///< updates from one landing of the deferred gradients to the next
  uint64_t select_interval = 0;  ///< updates from one choice of columns to the next; a multiple of update_interval
  uint64_t warm_up = 0;          ///< the first so many updates are whole
  bool operator==(const late_updates&) const = default;

  [[nodiscard]] bool on() const { return update_interval > 0; }
  /// Update `t`, counted from 1, updates everything.
  [[nodiscard]] bool whole(uint64_t t) const { return t <= warm_up; }
  /// Update `t` chooses columns before it does anything else.
  [[nodiscard]] bool chooses(uint64_t t) const { return (t - warm_up - 1) % select_interval == 0; }
  /// Update `t` applies the deferred gradients, its own included.
  [[nodiscard]] bool lands(uint64_t t) const { return (t - warm_up) % update_interval == 0; }
};

/// The values of `auto`.
inline constexpr uint64_t default_update_interval = 4, default_selections = 4;

/// Gradients of `parameter` are deferred on this rank: a trained matrix, part of which this rank updates.
[[nodiscard]] bool defers(const rank_plan& p, uint32_t parameter);
/// In elements from the start of the deferred gradients; for parameters that defer.
[[nodiscard]] uint64_t deferred_offset(const rank_plan& p, uint32_t parameter);
/// Bytes of deferred gradients, in the type of master weights, and for each column a flag and a sum.
[[nodiscard]] uint64_t deferred_bytes(const rank_plan& p);
/// Elements of the deferred gradients alone.
[[nodiscard]] uint64_t deferred_elements(const rank_plan& p);

}  // namespace troupe::plan
