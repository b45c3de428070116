// Which of several sources comes when, in proportion to weights, as a pure function of the position. Owns the pattern;
// what a source then gives is its own order's business.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Most sources of one mixture.
inline constexpr uint64_t max_sources = 1024;
/// Weights are taken as whole numbers with at most this sum; others are rounded to it.
inline constexpr uint64_t max_pattern = uint64_t{1} << 16;

/// The smallest whole numbers in the proportions of `weights` (each above 0), exact where decimal weights of up to six
/// places allow it within max_pattern, otherwise rounded to the largest remainders, none to 0. Errors: bad_input.
core::result<std::vector<uint64_t>> shares_of(std::span<const double> weights);

/// A pattern of sum(shares) places that repeats for ever; source i has shares[i] of them. Among the first n positions
/// source i has come floor or ceil of n * shares[i] / sum(shares) times, whatever n: proportions hold within one sample
/// over any prefix. Source: Balinski, Young 1975, "The quota method of apportionment": of the sources that would not go
/// beyond that ceiling the one with the largest shares[i] / (times come + 1) is next, the first of equals.
class interleave {
 public:
  /// At least one share, each above 0.
  explicit interleave(std::span<const uint64_t> shares);

  struct place {
    uint32_t source = 0;
    uint64_t index = 0;  ///< how often this source has come before
  };
  [[nodiscard]] place at(uint64_t position) const;
  [[nodiscard]] const std::vector<uint64_t>& shares() const { return shares_; }

 private:
  struct step {
    uint32_t source;
    uint32_t before;  ///< times within the pattern
  };
  std::vector<uint64_t> shares_;
  std::vector<step> pattern_;  ///< empty for one source
};

}  // namespace troupe::data
