#include "job/step/step_plans.hpp"

#include <fmt/format.h>

#include "plan/generate/generate.hpp"
#include "plan/layout/sets.hpp"

namespace troupe::job {

core::result<step_plans> step_plans::write(std::shared_ptr<const core::model_table> table,
                                           const plan::plan_options& options, const go_on& more) {
  if (!options.passes.empty() && options.ranks() > proved_ranks_max)
    return core::fail(
        core::error_kind::limit,
        fmt::format(
            "passes of a program's own: wanted at most {} ranks, because the plan of each rank is proved, got {}",
            proved_ranks_max, options.ranks()));
  TROUPE_ASSIGN(auto layout, plan::make_layout(std::move(table), options));
  step_plans out;
  out.layout_ = std::move(layout);
  out.classes_ = plan::classes_of(out.layout_);
  out.class_of_.resize(out.ranks());
  for (uint32_t c = 0; c < out.classes_.size(); ++c) {
    TROUPE_TRY(more ? more() : core::result<void>());
    for (const uint32_t r : out.classes_[c].ranks) out.class_of_[r] = c;
    TROUPE_ASSIGN(auto made, plan::generate(out.layout_, out.classes_[c].representative()));
    out.plans_.push_back(std::move(made));
  }
  return out;
}

core::result<void> step_plans::prove() const {
  if (layout_->options.passes.empty()) return plan::check_classes(classes_, plans_);
  TROUPE_TRY(all());
  return {};
}

core::result<std::shared_ptr<const plan::rank_plan>> step_plans::of(uint32_t rank) const {
  const auto& written = plans_[class_of_[rank]];
  if (written->rank == rank) return written;
  return plan::generate(layout_, rank);
}

core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> step_plans::written(const go_on& more) const {
  std::vector<std::shared_ptr<const plan::rank_plan>> out;
  for (uint32_t r = 0; r < ranks(); ++r) {
    TROUPE_TRY(more ? more() : core::result<void>());
    TROUPE_ASSIGN(auto made, of(r));
    out.push_back(std::move(made));
  }
  return out;
}

core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> step_plans::proved() const {
  auto out = written({});
  if (!out) return out;
  TROUPE_TRY(ranks() <= proved_ranks_max ? plan::check(*out) : plan::check_classes(classes_, plans_));
  return out;
}

core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> step_plans::all(const go_on& more) const {
  auto out = written(more);
  if (!out || ranks() > proved_ranks_max) return out;
  const auto each = plan::check(*out), classes = plan::check_classes(classes_, plans_);
  // A host program's own pass may change each rank differently; then only the proof of all ranks' plans counts.
  if (layout_->options.passes.empty() && each.has_value() != classes.has_value())
    return core::fail(core::error_kind::bug,
                      "the plans of all ranks and those of their classes are not proved alike: " +
                          (each ? classes.error().text : each.error().text));
  if (!each) return core::fail(each.error());
  return out;
}

}  // namespace troupe::job
