// Buckets: whose gradients are reduced together, and how large a bucket is where the plan chooses. In what order
// micro-batches come to a bucket is bucket_order.hpp's.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/job_layout.hpp"

namespace troupe::plan {

/// Fills in the buckets of a layout whose stages, parameters and ties are known.
void make_buckets(job_layout& l);

/// One write to a parameter's gradient: the unit and segment whose backward does it, in order of backward. Frozen
/// parameters have none.
struct contribution {
  uint32_t unit = 0, segment = 0;
};
std::vector<std::vector<contribution>> contributions(const core::model_table& table);

/// Buckets of fewer elements cost more time than their memory is worth.
inline constexpr uint64_t unit_bucket_min = uint64_t{1} << 20;

/// Elements of a bucket where buckets take turns in memory: the gradients that the largest unit completes by itself, at
/// least `unit_bucket_min`.
uint64_t unit_bucket(const core::model_table& table);

/// The same of the largest segment: where buckets stay, or follow units, smaller ones cost no memory and are reduced
/// sooner.
uint64_t segment_bucket(const core::model_table& table);

}  // namespace troupe::plan
