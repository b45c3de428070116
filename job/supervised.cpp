#include "job/supervised.hpp"

#include "job/feasible_degree.hpp"

namespace troupe::job {

cluster::supervised_job supervised(const config::job_config& config) {
  cluster::supervised_job out;
  const uint32_t ranks = config.parallel.ranks();
  const auto& c = config.cluster;
  out.processes = c.processes_for(ranks);
  out.spares = c.spares;
  out.ranks_each = ranks / out.processes;
  out.data = config.parallel.data;
  out.replica_ranks = ranks / config.parallel.data;
  out.feasible = [config](uint32_t left) { return greatest_feasible(config, left); };
  out.lost_after_ns = static_cast<int64_t>(c.lost_after_s * 1e9);
  out.recovers = c.on_loss == config::loss_policy::recover;
  out.starts_again = c.restarts.processes;
  // False if the user has set a higher minimum: a run with too few ranks then ends at once.
  out.waits_for_ranks = c.min_ranks <= 1;
  out.losses_max = static_cast<uint32_t>(c.restarts.max);
  out.backoff_ns = static_cast<int64_t>(c.restarts.backoff_s * 1e9);
  if (c.hosts.empty()) return out;
  for (const auto& h : c.hosts) out.hosts.push_back(h.name);
  for (const bool spare : {false, true})  // processes of spare machines have the highest numbers
    for (uint32_t m = 0; m < c.hosts.size(); ++m)
      if (c.hosts[m].is_spare == spare) out.machines.insert(out.machines.end(), c.hosts[m].ranks / out.ranks_each, m);
  out.spares = static_cast<uint32_t>(out.machines.size()) - out.processes;
  return out;
}

}  // namespace troupe::job
