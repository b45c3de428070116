// The plans of one kind of step: the layout that all ranks share, and one proved plan for each class of ranks, whose
// plans are equal except for the elements that they name. Owns when plans are written and how far they are proved;
// plan/ writes and proves them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "plan/check/check.hpp"
#include "plan/layout/classes.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::job {

/// Callback that is called several times a second while plans are written; an error ends the writing. May be empty.
using go_on = std::function<core::result<void>()>;

/// Largest number of ranks for which the checker also proves the plan of every rank, in addition to those of the
/// classes.
inline constexpr uint32_t proved_ranks_max = 64;

/// Plans of one kind of step for all ranks. Immutable once written; copies share the plans.
class step_plans {
 public:
  /// Writes one plan for each class. Returns every error of `plan::make_layout`, `plan::generate` and `more`, and limit
  /// if a program's own passes are used with more than `proved_ranks_max` ranks.
  static core::result<step_plans> write(std::shared_ptr<const core::model_table> table,
                                        const plan::plan_options& options, const go_on& more = {});
  /// Proves the plans of the classes or, if a host program's own passes are used, of all ranks; returns the error of
  /// the plan checker if a plan is wrong.
  [[nodiscard]] core::result<void> prove() const;

  [[nodiscard]] const plan::job_layout& layout() const { return *layout_; }
  [[nodiscard]] uint32_t ranks() const { return layout_->options.ranks(); }
  [[nodiscard]] const std::vector<plan::rank_class>& classes() const { return classes_; }
  /// Returns one plan for each class, in the order of classes().
  [[nodiscard]] plan::rank_plans plans() const { return plans_; }
  /// Returns the plan of the class of `rank`. It equals that rank's own plan, except that it may name the elements of
  /// another rank of the class.
  [[nodiscard]] const plan::rank_plan& like(uint32_t rank) const { return *plans_[class_of_[rank]]; }
  /// Returns the plan of rank number `rank`. Returns every error of `plan::generate`.
  [[nodiscard]] core::result<std::shared_ptr<const plan::rank_plan>> of(uint32_t rank) const;

  /// Returns the plans of all ranks, in rank order. In a job of at most `proved_ranks_max` ranks the plan of every rank
  /// is proved; without passes of a host program, its result has to agree with the proof of the classes (else: bug).
  [[nodiscard]] core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> all(const go_on& more = {}) const;
  /// Returns the plans of all ranks, for plans that `prove` has not checked, and proves each plan once; beyond
  /// `proved_ranks_max` ranks only the plans of the classes are proved.
  [[nodiscard]] core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> proved() const;

 private:
  [[nodiscard]] core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> written(const go_on& more) const;

  std::shared_ptr<const plan::job_layout> layout_;
  std::vector<plan::rank_class> classes_;
  std::vector<std::shared_ptr<const plan::rank_plan>> plans_;  // [class of ranks]: the plan of the class
  std::vector<uint32_t> class_of_;                             // [rank]: index of the rank's class
};

}  // namespace troupe::job
