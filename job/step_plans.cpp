#include "job/step_plans.hpp"

#include "plan/layout/sets.hpp"
#include "plan/generate/generate.hpp"

namespace troupe::job {

core::result<step_plans> step_plans::write(std::shared_ptr<const core::model_table> table,
                                           const plan::plan_options& options, const go_on& more) {
  auto layout = plan::make_layout(std::move(table), options);
  if (!layout) return core::fail(layout.error());
  step_plans out;
  out.layout_ = std::move(*layout);
  out.classes_ = plan::classes_of(out.layout_);
  out.class_of_.resize(out.ranks());
  for (uint32_t c = 0; c < out.classes_.size(); ++c) {
    if (auto ok = more ? more() : core::result<void>(); !ok) return core::fail(ok.error());
    for (const uint32_t r : out.classes_[c].ranks) out.class_of_[r] = c;
    out.plans_.push_back(plan::generate(out.layout_, out.classes_[c].representative()));
  }
  return out;
}

std::shared_ptr<const plan::rank_plan> step_plans::of(uint32_t rank) const {
  const auto& written = plans_[class_of_[rank]];
  return written->rank == rank ? written : plan::generate(layout_, rank);
}

core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> step_plans::all(const go_on& more) const {
  std::vector<std::shared_ptr<const plan::rank_plan>> out;
  for (uint32_t r = 0; r < ranks(); ++r) {
    if (auto ok = more ? more() : core::result<void>(); !ok) return core::fail(ok.error());
    out.push_back(of(r));
  }
  if (ranks() > proved_ranks_max) return out;
  const auto each = plan::check(out), classes = prove();
  if (each.has_value() != classes.has_value())
    return core::fail(core::error_kind::bug,
                      "the plans of all ranks and those of their classes are not proved alike: " +
                          (each ? classes.error().text : each.error().text));
  if (!each) return core::fail(each.error());
  return out;
}

}  // namespace troupe::job
