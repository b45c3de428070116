// Owns the buckets: which gradients are reduced together, and the size of a bucket if the plan chooses it. The order in
// which micro-batches complete a bucket is in sets.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/job_layout.hpp"

namespace troupe::plan {

/// Assigns the parameters of a layout to gradient buckets. Requires that stages, parameters and ties are set.
void make_buckets(job_layout& l);

/// One write to a parameter's gradient: the unit and segment whose backward writes it. contributions() returns the
/// writes of each parameter in order of backward; frozen parameters have none.
struct contribution {
  uint32_t unit = 0, segment = 0;
};
std::vector<std::vector<contribution>> contributions(const core::model_table& table);

/// Minimum elements of a bucket; smaller buckets cost more time than their memory is worth.
inline constexpr uint64_t unit_bucket_min = uint64_t{1} << 20;

/// Elements of a bucket if buckets share memory slots: the gradients that the largest unit completes by itself, at
/// least `unit_bucket_min`.
uint64_t unit_bucket(const core::model_table& table);

/// Elements of a bucket if each bucket has a buffer of its own for the whole step (buckets_stay), or ends with its
/// unit: the gradients that the largest segment completes by itself, at least `unit_bucket_min`. In these cases smaller
/// buckets cost no memory and are reduced sooner.
uint64_t segment_bucket(const core::model_table& table);

}  // namespace troupe::plan
