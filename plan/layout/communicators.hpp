// Which ranks meet for what: the communicators of a job, and the one of each collective. Pure functions of the layout.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/instruction.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Of a job with these options: for each pipeline coordinate, and in it each tensor coordinate, its ranks; then, where
/// these are several, all ranks, and for every boundary between stages of different ranks the two at its ends, each
/// direction by itself; then, where there are replicas, each one's ranks, and where parameters have a second copy,
/// those who share one, of one pipeline coordinate after the other; then, where there are tensor groups, the ranks of
/// each, and those of each pipeline coordinate; then, for every pair of coordinates that hold uses of a tied parameter,
/// the two of each column.
std::vector<communicator> communicators_of(const plan_options& options, const std::vector<tie_exchange>& exchanges);

/// Where the ranks of a pipeline coordinate meet that hold the same elements of cut parameters: over gradients.
uint32_t data_communicator(const job_layout& l, uint32_t pipeline, uint32_t tensor = 0);
/// Where those meet that the states of a pipeline coordinate are cut over, in one replica. A member's number is its
/// position among the shards.
uint32_t shard_communicator(const job_layout& l, uint32_t pipeline, uint32_t replica, uint32_t tensor = 0);
/// Where the gradients of a bucket are added: over data ranks, or over those of all tensor coordinates.
uint32_t reduce_communicator(const job_layout& l, const parameter_set& bucket, uint32_t tensor = 0);
/// Where all ranks of a pipeline coordinate meet, of all tensor coordinates; only where there are several of these.
uint32_t over_tensor_communicator(const job_layout& l, uint32_t pipeline);
/// Where those meet that share a second copy of parameters with `rank`; a member's number is its place in the copy.
uint32_t near_communicator(const job_layout& l, uint32_t rank);
/// The communicator whose members have the same collectives, one by one: of replicas, of those who share a second copy,
/// of tensor coordinates and of tensor groups the first one of the pipeline coordinate, else `c` itself.
uint32_t alike(const job_layout& l, uint32_t c);
/// Where all ranks meet.
uint32_t world_communicator(const job_layout& l);
/// A transfer crosses the boundary before this stage.
uint32_t later_stage(const job_layout& l, const operation& x);
/// Where `rank` meets others for `x`, an operation of the fabric lane: an index of `l.communicators`.
uint32_t communicator_of(const job_layout& l, uint32_t rank, const operation& x);

/// Adds to `met` what a run of these plans does. [communicator]; grows from empty.
void add_collectives(std::vector<uint64_t>& met, rank_plans plans);

}  // namespace troupe::plan
