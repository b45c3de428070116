// The global order of samples without the samples that a run leaves out. Computes the position of the n-th sample that
// is used, a pure function of n and of the samples left out. data/skips.hpp decides which samples are left out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/left_out_steps.hpp"

namespace troupe::data {

/// The samples that a run leaves out, as ranges of positions in the global order. An object without ranges leaves out
/// nothing.
class left_out {
 public:
  left_out() = default;
  /// Leaves out `ranges`, which may be in any order and overlap.
  explicit left_out(std::vector<core::sample_range> ranges);
  /// Leaves out the samples of all `decisions`.
  explicit left_out(std::span<const core::left_out_steps> decisions);

  /// Returns the position of the sample that is taken as number `taken`, counted from 0. Ascends with `taken` and
  /// covers every position that is not left out.
  [[nodiscard]] uint64_t position_of(uint64_t taken) const;
  /// Returns the positions of samples [taken, taken + count) as ranges: ascending, separate, none empty.
  [[nodiscard]] std::vector<core::sample_range> positions(uint64_t taken, uint64_t count) const;

  /// Returns the ranges that are left out: ascending, separate, none empty.
  [[nodiscard]] const std::vector<core::sample_range>& ranges() const { return ranges_; }

 private:
  std::vector<core::sample_range> ranges_;
  std::vector<uint64_t> taken_before_;  ///< [range]: number of samples before the range that are not left out
};

}  // namespace troupe::data
