// Groups parameters before any instruction is written: gather sets, buckets, publish sets and their places. Owns the
// part that all ranks share; one rank's own part is in own.hpp.
#pragma once

#include <memory>

#include "core/error.hpp"
#include "plan/job_layout.hpp"

namespace troupe::plan {

/// The layout that all ranks' plans of one kind of step share. Refuses more ranks than the model can be cut into and
/// impossible sizes.
core::result<std::shared_ptr<const job_layout>> make_layout(std::shared_ptr<const core::model_table> table,
                                                            const plan_options& options);

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
