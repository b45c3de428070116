// Owns the order in which micro-batches complete the gradients of each bucket. The stages that write to the bucket
// determine it, and a pipeline's schedule may let it differ from the order of micro-batches. All code that begins or
// ends a sum follows this order.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/job_layout.hpp"

namespace troupe::plan {

/// Computes job_layout::bucket_order. Requires a layout whose stages and buckets are made.
std::vector<std::vector<uint32_t>> bucket_orders(const job_layout& l);

}  // namespace troupe::plan
