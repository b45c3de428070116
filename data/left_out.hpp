// The global order of samples without those that a run leaves out. Owns which position the n-th sample that is taken
// stands at, a pure function of n and of what is left out; who decides what that is: data/skips.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/left_out_steps.hpp"

namespace troupe::data {

/// Nothing is left out of one made of no ranges.
class left_out {
 public:
  left_out() = default;
  /// Ranges in any order; they may overlap.
  explicit left_out(std::vector<core::sample_range> ranges);
  /// Of all these decisions.
  explicit left_out(std::span<const core::left_out_steps> decisions);

  /// Where the sample stands that is taken as the `taken`-th, from 0. Ascends with it, and meets every position that is
  /// not left out.
  [[nodiscard]] uint64_t position_of(uint64_t taken) const;
  /// The positions of samples [taken, taken + count): ascending, apart, none empty.
  [[nodiscard]] std::vector<core::sample_range> positions(uint64_t taken, uint64_t count) const;

  /// Ascending, apart, none empty.
  [[nodiscard]] const std::vector<core::sample_range>& ranges() const { return ranges_; }

 private:
  std::vector<core::sample_range> ranges_;
  std::vector<uint64_t> taken_before_;  ///< [range]: samples that are taken before it
};

}  // namespace troupe::data
