// Owns the communicators of a job, and the choice of the communicator of each collective. Pure functions of the layout.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/instruction.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Returns the communicators of a job with these options, in this order:
/// - for each pipeline coordinate, and in it each tensor coordinate: its ranks;
/// - if these are several communicators: all ranks; then, for every boundary between stages on different ranks, the two
///   ranks at its ends, one communicator per direction;
/// - if there are several copies of the states: the ranks that together hold each copy;
/// - if parameters have a second copy (hpZ): the ranks that share one, pipeline coordinate by pipeline coordinate;
/// - if there are tensor groups: the ranks of each group, then all ranks of each pipeline coordinate;
/// - if there are sequence groups: the ranks of each group;
/// - for every pair of pipeline coordinates that hold uses of a tied parameter: each pair of two ranks that are equal
///   in all other coordinates.
std::vector<communicator> communicators_of(const plan_options& options, const std::vector<tie_exchange>& exchanges);

/// Returns the communicator that reduces gradients: the ranks of a pipeline coordinate that hold the same elements of
/// parameters that are divided over tensor ranks.
uint32_t data_communicator(const job_layout& l, uint32_t pipeline, uint32_t tensor = 0);
/// Returns the communicator of the ranks that together hold copy number `replica` of the states of a pipeline
/// coordinate and tensor coordinate. Member n holds shard n.
uint32_t shard_communicator(const job_layout& l, uint32_t pipeline, uint32_t replica, uint32_t tensor = 0);
/// Returns the communicator that adds the gradients of a bucket: data-parallel ranks of one tensor coordinate or, if
/// the gradients are also summed over tensor ranks (parameter_set::over_tensor), of all tensor coordinates.
uint32_t reduce_communicator(const job_layout& l, const parameter_set& bucket, uint32_t tensor = 0);
/// Returns the communicator of all ranks of a pipeline coordinate. Requires several tensor coordinates.
uint32_t over_tensor_communicator(const job_layout& l, uint32_t pipeline);
/// Returns the communicator of the ranks that share a second copy of parameters (hpZ) with `rank`. Member n holds part
/// n of the copy.
uint32_t near_communicator(const job_layout& l, uint32_t rank);
/// Returns the communicator that represents all communicators that run the same collectives as `c`, one by one. Such
/// communicators belong to one pipeline coordinate and connect ranks of one kind: the ranks that hold one copy of the
/// states, sharers of a second copy (hpZ), the ranks of one tensor coordinate, a tensor group or a sequence group; the
/// first of them represents all. For any other communicator, returns `c` itself.
uint32_t alike(const job_layout& l, uint32_t c);
/// Returns the communicator that represents all those which run the same collectives as `c` at about the same time: the
/// ones of alike(), and the transfers between two stages, or of the gradients of one tied parameter, of all columns.
uint32_t at_once(const job_layout& l, uint32_t c);
/// Returns the number of the communicator that contains all ranks.
uint32_t world_communicator(const job_layout& l);
/// Returns the later of the two stages between which transfer `x` (a send or a receive) moves data.
uint32_t later_stage(const job_layout& l, const operation& x);
/// Returns the communicator that `rank` uses for `x`, an operation of the fabric lane, as an index of
/// `l.communicators`.
uint32_t communicator_of(const job_layout& l, uint32_t rank, const operation& x);

/// Adds to met[c] the number of collectives that communicator c runs in these plans, for every communicator c. `met`
/// may be empty and is extended as needed.
void add_collectives(std::vector<uint64_t>& met, rank_plans plans);

}  // namespace troupe::plan
