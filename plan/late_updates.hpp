// ZenFlow's schedule: of every matrix the columns with the largest gradients are updated in every step, the others'
// gradients are put by and applied at fixed steps. Owns which parameters, which steps, and the bytes that it takes; the
// arithmetic is kernels/late_update.hpp's. See docs/numerics.md, "Late updates".
#pragma once

#include <cstdint>

namespace troupe::plan {

struct rank_plan;

/// Counts of applied updates; the same on all ranks. Off where `update_interval` is 0.
struct late_updates {
  double share = 0.1;            ///< of a matrix's columns, updated in every step
  uint64_t update_interval = 0;  ///< updates from one landing of what was put by to the next
  uint64_t select_interval = 0;  ///< updates from one choice of columns to the next; a multiple of update_interval
  uint64_t warm_up = 0;          ///< first so many updates are whole
  bool operator==(const late_updates&) const = default;

  [[nodiscard]] bool on() const { return update_interval > 0; }
  /// Update `t`, counted from 1, updates everything.
  [[nodiscard]] bool whole(uint64_t t) const { return t <= warm_up; }
  /// Update `t` chooses columns before it does anything else.
  [[nodiscard]] bool chooses(uint64_t t) const { return (t - warm_up - 1) % select_interval == 0; }
  /// Update `t` applies what was put by, its own gradient included.
  [[nodiscard]] bool lands(uint64_t t) const { return (t - warm_up) % update_interval == 0; }
};

/// What `auto` stands for.
inline constexpr uint64_t default_update_interval = 4, default_selections = 4;

/// Gradients of `parameter` are put by on this rank: a trained matrix, of which this rank updates something.
[[nodiscard]] bool defers(const rank_plan& p, uint32_t parameter);
/// In elements from the start of what is put by; for parameters that defer.
[[nodiscard]] uint64_t deferred_offset(const rank_plan& p, uint32_t parameter);
/// What is put by, in the type of master weights, and for each column a flag and a sum.
[[nodiscard]] uint64_t deferred_bytes(const rank_plan& p);
/// Of what is put by alone.
[[nodiscard]] uint64_t deferred_elements(const rank_plan& p);

}  // namespace troupe::plan
