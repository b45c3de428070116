// The plans of one kind of step: the layout that all ranks share, and one plan for each class of ranks, proved. Owns
// when plans are written and how far they are proved; plan/ writes and proves them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "plan/check/check.hpp"
#include "plan/layout/classes.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::job {

/// Called several times a second while plans are written; an error ends the writing. May be empty.
using go_on = std::function<core::result<void>()>;

/// Up to this many ranks the checker also proves the plan of every rank, beside those of the classes.
inline constexpr uint32_t proved_ranks_max = 64;

/// Immutable once written; copies share their plans.
class step_plans {
 public:
  /// Writes one plan for each class. Errors: `plan::make_layout`'s and `plan::generate`'s, and those of `more`; more
  /// than `proved_ranks_max` ranks beside passes of a program's own.
  static core::result<step_plans> write(std::shared_ptr<const core::model_table> table,
                                        const plan::plan_options& options, const go_on& more = {});
  /// Proves them for all ranks. Errors: the checker's.
  [[nodiscard]] core::result<void> prove() const;

  [[nodiscard]] const plan::job_layout& layout() const { return *layout_; }
  [[nodiscard]] uint32_t ranks() const { return layout_->options.ranks(); }
  [[nodiscard]] const std::vector<plan::rank_class>& classes() const { return classes_; }
  /// One for each class, in their order.
  [[nodiscard]] plan::rank_plans plans() const { return plans_; }
  /// The plan of the class of `rank`: equal to that rank's own except for whose elements it names.
  [[nodiscard]] const plan::rank_plan& like(uint32_t rank) const { return *plans_[class_of_[rank]]; }
  /// The plan of `rank` itself. Errors: `plan::generate`'s.
  [[nodiscard]] core::result<std::shared_ptr<const plan::rank_plan>> of(uint32_t rank) const;

  /// The plans of all ranks, in rank order; up to `proved_ranks_max` ranks each is proved, and the verdict has to agree
  /// with that of its class.
  [[nodiscard]] core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> all(const go_on& more = {}) const;
  /// The same of plans that `prove` has not seen, each proved once: beyond `proved_ranks_max` ranks those of the
  /// classes.
  [[nodiscard]] core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> proved() const;

 private:
  [[nodiscard]] core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> written(const go_on& more) const;

  std::shared_ptr<const plan::job_layout> layout_;
  std::vector<plan::rank_class> classes_;
  std::vector<std::shared_ptr<const plan::rank_plan>> plans_;  // [class]
  std::vector<uint32_t> class_of_;                             // [rank]
};

}  // namespace troupe::job
