// Decides which of several sources provides the sample at a position, in proportion to the sources' weights, as a pure
// function of the position. Each source has its own order of samples (sample_order.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Largest number of sources of one mixture.
inline constexpr uint64_t max_sources = 1024;
/// Largest sum of the integers that represent the weights of sources; weights are rounded so that it is not exceeded.
inline constexpr uint64_t max_pattern = uint64_t{1} << 16;

/// Returns the smallest whole numbers in the proportions of `weights` (each above 0): exact if decimal weights of up to
/// six places fit max_pattern, else rounded by largest remainders, none to 0. Errors: bad_input.
core::result<std::vector<uint64_t>> shares_of(std::span<const double> weights);

/// A pattern of sum(shares) positions that repeats for ever; source i has shares[i] of them. Among the first n
/// positions source i occurs floor or ceil of n * shares[i] / sum(shares) times, for every n: the proportions of any
/// prefix are exact within one sample. Source: Balinski, Young 1975, "The quota method of apportionment": of the
/// sources that would not exceed that ceiling, the one with the largest shares[i] / (occurrences + 1) is next; ties go
/// to the first source.
class interleave {
 public:
  /// Makes the pattern for these shares: at least one, each above 0.
  explicit interleave(std::span<const uint64_t> shares);

  struct place {
    uint32_t source = 0;
    uint64_t index = 0;  ///< number of positions before this one that have the same source
  };
  [[nodiscard]] place at(uint64_t position) const;
  [[nodiscard]] const std::vector<uint64_t>& shares() const { return shares_; }

 private:
  struct step {
    uint32_t source;
    uint32_t before;  ///< number of positions before this one, within the pattern, that have the same source
  };
  std::vector<uint64_t> shares_;
  std::vector<step> pattern_;  ///< positions of the pattern; empty if there is only one source
};

}  // namespace troupe::data
