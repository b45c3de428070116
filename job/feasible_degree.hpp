// Computes the data degree at which a job continues when ranks are lost, and the same job with that degree. The degrees
// of the other axes do not change: only groups of ranks that together hold a whole copy of the model (replicas) train,
// and surplus ranks wait. Pure; make_blueprint decides whether the degree can be planned.
//
// Settings that follow from the data degree of a loaded job and change with it: parallel.ranks,
// train_micro_batch_size_per_gpu and gradient_accumulation_steps; at run time the factor of prescale_gradients and each
// rank's part of cluster.host_memory_budget. Settings that must not change: the other degrees, train_batch_size, and
// groups within the data ranks (parallel.shard, mics_shard_size, zero_hpz_partition_size), which the degree has to
// suit. The number of processes does not change either, if the configuration sets cluster.processes.
#pragma once

#include <cstdint>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "job/degree_changes.hpp"

namespace troupe::job {

/// Returns the number of ranks that together hold one copy of the model.
inline uint32_t ranks_of_replica(const config::parallel_section& p) { return p.ranks() / p.data; }

/// Returns the division of the job's global batch at a data degree: by the section `elasticity` if it is enabled, else
/// into micro-batches of at most the job's own rows. Errors (bad_input), each with its key: a degree for which no
/// division exists or that changes the global batch; a degree that is no multiple of the size of the groups within the
/// data ranks; more micro-batches than a pipeline may have.
core::result<cut_batch> batch_at_degree(const config::job_config& config, uint32_t data);

/// Returns the greatest data degree, at most the job's own, that needs no more than `ranks_left` ranks and for which a
/// batch exists. `config` is the job as it was loaded, without open degrees, not one that has lost ranks: its degree
/// and rows are the maximum. Errors (peer_lost): fewer ranks are left than hold one copy of the model (the error names
/// the axes over which they split it); no such degree; fewer ranks than cluster.min_ranks.
core::result<uint32_t> greatest_feasible(const config::job_config& config, uint32_t ranks_left);

/// Returns the job with data degree `data`, for which batch_at_degree must have found a batch.
config::job_config at_degree(const config::job_config& config, uint32_t data);

}  // namespace troupe::job
