// Describes a job of several simulated processes for its world: the supervisor's description, and the plans at each
// number of data ranks. Owns where the two come from: a configuration, or plans that a test makes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cluster/supervised_job.hpp"
#include "sim/fault.hpp"
#include "sim/terms/term_company.hpp"

namespace troupe::config {
struct job_config;
}

namespace troupe::sim {

struct simulated_job {
  cluster::supervised_job base;  ///< without timeouts, which the world chooses
  /// Returns the plans at a number of data ranks, which are made at the first call; null: the job cannot have it. Used
  /// by one thread.
  std::function<const plans_by_choice*(uint32_t data)> plans;
  plan::cost_model costs;     ///< usual rates of the configuration's device, or the defaults
  uint64_t memory_every = 1;  ///< `checkpoint.memory.every_steps`
  uint64_t disk_every = 0;    ///< `checkpoint.every_steps`
  [[nodiscard]] std::vector<uint32_t> hosts_of_ranks() const;  ///< [rank]: its host while no process is lost
};

/// Returns the job of a configuration; `processes`: number of processes that have ranks at first, or 0 for the
/// configuration's. Throws world_error for a number that does not divide the ranks.
simulated_job job_of(const std::shared_ptr<const config::job_config>& config, uint32_t processes);

/// Returns the job whose plans `make` returns, at any number of data ranks up to that of all processes; each rank is a
/// data rank. Throws world_error for a job without processes or ranks.
simulated_job job_of(std::function<std::vector<actors::shared_rank_plans>(uint32_t data)> make, uint32_t processes,
                     uint32_t spares, uint32_t ranks_each);

}  // namespace troupe::sim
