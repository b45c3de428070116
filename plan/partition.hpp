// Owns the cut of each parameter: which rank owns which elements. Leaves memory to layout.hpp.
//
// A parameter is cut into blocks of core::partition_grain elements; each rank owns one contiguous run of blocks, in
// rank order. A block of the norm, a page of a file and a SIMD loop therefore never have two owners.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/math.hpp"
#include "core/model_table.hpp"

namespace troupe::plan {

/// Elements [first, first + count) of a parameter. `count` may be 0.
struct slice {
  uint64_t first = 0;
  uint64_t count = 0;
  bool operator==(const slice&) const = default;
};

/// The rule for blocks that do not divide evenly over the ranks.
enum class uneven_blocks : uint8_t {
  to_least,  ///< the ranks that own the fewest elements so far get one more block
  in_turn,   ///< consecutive ranks from one parameter to the next get one more block: DeepSpeed's round_robin_gradients
};

/// The owner of every element of every parameter. For each parameter the class stores how many blocks every rank has,
/// and which ranks have one more. A cut over thousands of ranks is therefore small, and a slice is found in constant
/// time.
class partition {
 public:
  [[nodiscard]] slice of(uint32_t parameter, uint32_t rank) const {
    const cut& c = cuts_[parameter];
    const uint64_t first = c.begin_of(rank);
    return {first, c.begin_of(rank + 1) - first};
  }
  [[nodiscard]] uint64_t elements_of(uint32_t rank) const;
  [[nodiscard]] uint32_t ranks() const { return ranks_; }
  [[nodiscard]] uint32_t parameters() const { return static_cast<uint32_t>(cuts_.size()); }
  bool operator==(const partition&) const = default;

 private:
  friend partition make_partition(const core::model_table& table, uint32_t ranks, uneven_blocks uneven);

  struct cut {
    uint64_t elements = 0, blocks_each = 0;
    // [rank], with one more entry for the end: number of lower ranks that have one more block; empty if no rank has
    // one more
    std::vector<uint32_t> more_before{};
    bool operator==(const cut&) const = default;
    [[nodiscard]] uint64_t begin_of(uint32_t rank) const {
      const uint64_t blocks = blocks_each * rank + (more_before.empty() ? 0 : more_before[rank]);
      return std::min(elements, blocks * core::partition_grain);
    }
  };
  uint32_t ranks_ = 1;
  std::vector<cut> cuts_;  // [parameter]: cut of the parameter
};

/// Divides every parameter over `ranks`. A copy of a tied parameter is divided like its original; copies do not
/// influence the division of other parameters.
partition make_partition(const core::model_table& table, uint32_t ranks, uneven_blocks uneven);

}  // namespace troupe::plan
