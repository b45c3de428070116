// The order in which micro-batches complete the gradients of each bucket: that of the stages that write to it, which a
// pipeline's schedule may let leave the order of micro-batches. Everything that begins or ends a sum follows it.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/job_layout.hpp"

namespace troupe::plan {

/// job_layout::bucket_order of a layout whose stages and buckets are made.
std::vector<std::vector<uint32_t>> bucket_orders(const job_layout& l);

}  // namespace troupe::plan
