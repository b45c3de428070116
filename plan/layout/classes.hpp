// Classes of ranks whose plans are equal except for whose elements they name. Owns the facts that make plans equal;
// tests/plan/layout/classes_test.cpp compares such plans, check/check.hpp says what one plan of each class proves.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

struct rank_class {  ///< ranks in ascending order; the first stands for all of them
  std::vector<uint32_t> ranks;
  [[nodiscard]] uint32_t representative() const { return ranks.front(); }
};

/// Every rank of the layout, in classes in the order of their first ranks. Of a pipeline whole columns are alike, so
/// that those who send to a rank that stands for others stand for others too. Linear in ranks x parameters.
std::vector<rank_class> classes_of(const std::shared_ptr<const job_layout>& layout);

/// Numbers of each parameter, in one run of memory.
class parameter_lists {
 public:
  /// `each(told)` tells all pairs of a parameter and a number, in the same order each time that it is called.
  template <class Each>
  parameter_lists(size_t parameters, Each each) : begin_(parameters + 1, 0) {
    each([&](uint32_t q, uint32_t) { ++begin_[q + 1]; });
    for (size_t q = 0; q < parameters; ++q) begin_[q + 1] += begin_[q];
    all_.resize(begin_.back());
    std::vector<uint32_t> at(begin_.begin(), begin_.end() - 1);
    each([&](uint32_t q, uint32_t number) { all_[at[q]++] = number; });
  }
  [[nodiscard]] std::span<const uint32_t> of(uint32_t parameter) const {
    return std::span(all_).subspan(begin_[parameter], begin_[parameter + 1] - begin_[parameter]);
  }

 private:
  std::vector<uint32_t> begin_, all_;
};

class rank_shapes {  ///< facts that make plans of one layout equal
 public:
  explicit rank_shapes(const job_layout& l);  ///< keeps `l`, which has to outlive it
  /// All that writers, passes, placing and the memory table read of a rank's own part, in numbers: amounts and sets,
  /// never which elements. Equal for two ranks if and only if they are of one class.
  [[nodiscard]] std::vector<uint64_t> of(const rank_plan& own) const;

 private:
  const job_layout& l_;
  parameter_lists sets_of_;         // the gather sets, then the publish sets, that contain each parameter
  std::vector<uint32_t> matrices_;  // parameters that some rank makes orthogonal
};

}  // namespace troupe::plan
