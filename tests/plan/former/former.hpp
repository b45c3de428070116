// The generator as it was before it was cut into phases.
#pragma once

#include <memory>

#include "plan/rank_plan.hpp"

namespace troupe::plan::former {

std::shared_ptr<const rank_plan> generate(std::shared_ptr<const job_layout> layout, uint32_t rank);

}  // namespace troupe::plan::former
