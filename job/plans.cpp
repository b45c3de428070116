#include "job/plans.hpp"

#include <utility>

#include "job/blueprint.hpp"

namespace troupe::job {

core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> make_plans(
    std::shared_ptr<const config::job_config> config, plan::plan_choice which) {
  TROUPE_ASSIGN(const blueprint made, make_blueprint(std::move(config)));
  if (which == plan::plan_choice::train) return made.train.all();
  TROUPE_ASSIGN(const step_plans plans, made.write(which));
  return plans.all();
}

}  // namespace troupe::job
