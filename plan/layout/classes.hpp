// Owns the facts that put ranks into one class: the plans of a class are equal except for the owners of the elements
// that they name. tests/plan/layout/classes_test.cpp compares such plans; check/check.hpp states what one plan of each
// class proves.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Ranks that can share one plan, in ascending order. The first rank represents all of them.
struct rank_class {
  std::vector<uint32_t> ranks;
  [[nodiscard]] uint32_t representative() const { return ranks.front(); }
};

/// Returns every rank of the layout in its class; classes are in the order of their first ranks. In a pipeline whole
/// columns (a rank and its neighbours in all stages) are compared, so that the neighbours of a representative are
/// representatives, too. Linear in ranks x parameters.
std::vector<rank_class> classes_of(const std::shared_ptr<const job_layout>& layout);

/// Lists of numbers, one list per parameter, in one run of memory.
class parameter_lists {
 public:
  /// Calls `each(told)` twice; both times it must call told(parameter, number) for the same pairs in the same order.
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

/// Computes for each rank the numbers that determine its plan, so that ranks with equal numbers form a class.
class rank_shapes {
 public:
  explicit rank_shapes(const job_layout& l);  ///< Keeps a reference to `l`, which must outlive this object.
  /// Returns all numbers by which the plans of two ranks can differ apart from which elements they name: amounts of
  /// elements and bytes, and the sets that contain them. The result is equal for two ranks if and only if they are of
  /// one class.
  [[nodiscard]] std::vector<uint64_t> of(const rank_plan& own) const;

 private:
  const job_layout& l_;
  parameter_lists sets_of_;         // [parameter]: gather sets, then publish sets, that contain it
  std::vector<uint32_t> matrices_;  // parameters that some rank orthogonalises
};

}  // namespace troupe::plan
