// Ranks that do the same: their plans are equal but for whose elements they name. Owns what makes plans equal; that
// they are is compared by tests/plan/layout/classes_test.cpp, what one plan of each class proves is check/check.hpp's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

struct rank_class {  ///< ranks in ascending order; the first stands for all of them
  std::vector<uint32_t> ranks;
  [[nodiscard]] uint32_t representative() const { return ranks.front(); }
};

/// Every rank of the layout, in classes in the order of their first ranks. Linear in ranks x parameters.
std::vector<rank_class> classes_of(const std::shared_ptr<const job_layout>& layout);

class rank_shapes {  ///< what makes plans of one layout equal
 public:
  explicit rank_shapes(const job_layout& l);  ///< keeps `l`, which has to outlive it
  /// What writers, passes, places and the memory table read of a rank's own part, in numbers: how much it has of what,
  /// in which sets, never which elements. Equal for two ranks if and only if they are of one class.
  [[nodiscard]] std::vector<uint64_t> of(const rank_plan& own) const;

 private:
  const job_layout& l_;
  std::vector<std::vector<uint32_t>> sets_of_;  // [parameter]: gather sets, then publish sets, that it is in
};

}  // namespace troupe::plan
