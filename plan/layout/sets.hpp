// Owns the groups of parameters that are made before any instruction is written: gather sets, buckets, publish sets and
// their offsets. This is the part that all ranks share; one rank's own part is in own.hpp.
#pragma once

#include <memory>

#include "core/error.hpp"
#include "plan/job_layout.hpp"

namespace troupe::plan {

/// Makes the layout that all ranks' plans of one kind of step share. Returns an error for more ranks than the model can
/// be cut into, and for impossible sizes.
core::result<std::shared_ptr<const job_layout>> make_layout(std::shared_ptr<const core::model_table> table,
                                                            const plan_options& options);

}  // namespace troupe::plan
