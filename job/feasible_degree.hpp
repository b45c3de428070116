// The data degree that a job goes on with when ranks are lost, and the same job with that degree. The other axes stay:
// only whole replicas train, and ranks that are left over wait. Pure; whether a plan of it can be made says
// make_blueprint.
//
// What follows from the data degree of a loaded job and changes with it: parallel.ranks, train_micro_batch_size_per_gpu
// and gradient_accumulation_steps; at run time the factor of prescale_gradients and each rank's part of
// cluster.host_memory_budget. What must not change: the other degrees, train_batch_size, and groups within the data
// ranks (parallel.shard, mics_shard_size, zero_hpz_partition_size), which a degree has to suit. Processes do not change
// either: a number of them in cluster.processes is that of the file.
#pragma once

#include <cstdint>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "job/degree_changes.hpp"

namespace troupe::job {

/// Ranks that hold one replica of the model.
inline uint32_t ranks_of_replica(const config::parallel_section& p) { return p.ranks() / p.data; }

/// How the job's global batch is cut at a data degree: as `elasticity` has it where it is on, else in micro-batches of
/// at most the job's own rows. Errors (bad_input), each with its key: a degree for which there is no such cut, or
/// another global batch; groups that do not divide it; more micro-batches than a pipeline may have.
core::result<cut_batch> batch_at_degree(const config::job_config& config, uint32_t data);

/// The greatest data degree, at most the job's own, whose replicas `ranks_left` ranks can hold and for which there is a
/// batch. `config` is the job as it was loaded, without open degrees, not one that has lost ranks: its degree and rows
/// are the most. Errors (peer_lost): no whole replica is left, with its axes; no such degree; fewer ranks than
/// cluster.min_ranks.
core::result<uint32_t> greatest_feasible(const config::job_config& config, uint32_t ranks_left);

/// The same job with a data degree that batch_at_degree accepts.
config::job_config at_degree(const config::job_config& config, uint32_t data);

}  // namespace troupe::job
