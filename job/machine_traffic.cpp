#include "job/machine_traffic.hpp"

#include <map>

#include "fabric/wire/traffic.hpp"
#include "job/step/collective_form.hpp"
#include "job/supervised.hpp"

namespace troupe::job {
namespace {

/// Returns the job's numbers of the machines on which the communicator has members, in the order of its members.
std::vector<uint32_t> machines_in(const plan::communicator& c, const std::vector<uint32_t>& machine_of) {
  std::vector<uint32_t> out;
  for (const uint32_t r : c.members)
    if (out.empty() || out.back() != machine_of[r]) out.push_back(machine_of[r]);
  return out;
}

/// Returns for each rank its machine before any loss; all are 0 if the configuration lists no machines.
std::vector<uint32_t> machines_of_ranks(const config::job_config& config) {
  const auto job = supervised(config);
  std::vector<uint32_t> out;
  for (uint32_t r = 0; r < config.parallel.ranks(); ++r) out.push_back(job.machine_of(r / job.ranks_each));
  return out;
}

}  // namespace

core::result<machine_traffic> traffic_of(const config::job_config& config, const step_plans& plans,
                                         const step_plans* saving) {
  const auto machine_of = machines_of_ranks(config);
  const auto machines = static_cast<uint32_t>(std::max<size_t>(config.cluster.hosts.size(), 1));
  machine_traffic out{std::vector<uint64_t>(machines), std::vector<uint64_t>(machines)};
  const auto& layout = plans.layout();
  // [rank]: communicators that span several machines and whose first member is this rank.
  std::map<uint32_t, std::vector<uint32_t>> led;
  for (uint32_t c = 0; c < layout.communicators.size(); ++c)
    if (machines_in(layout.communicators[c], machine_of).size() > 1)
      led[layout.communicators[c].members.front()].push_back(c);
  for (const auto& [rank, communicators] : led) {
    TROUPE_ASSIGN(const auto plan, plans.of(rank));
    const auto pieces = pieces_of(*plan);
    for (const uint32_t c : communicators) {
      const auto& members = layout.communicators[c].members;
      std::vector<fabric::home> where;
      for (const uint32_t r : members) where.push_back({machine_of[r], r});
      TROUPE_ASSIGN(const auto homes, fabric::homes::make(where));
      const auto numbers = machines_in(layout.communicators[c], machine_of);
      for (const uint32_t id : plan->lanes[static_cast<size_t>(plan::lane::fabric)]) {
        const auto& x = plan->instructions[id];
        if (x.communicator != c) continue;
        auto r = collective_form(*plan, x);
        r.pieces = pieces[c][x.sequence];
        const auto bytes = fabric::wire_bytes(r, homes);
        for (size_t k = 0; k < numbers.size(); ++k) out.entered_bytes[numbers[k]] += bytes[k];
      }
    }
  }
  if (saving == nullptr || machines == 1) return out;
  for (uint32_t r = 0; r < plans.ranks(); ++r)
    for (const auto& s : saving->like(r).snapshots) out.kept_bytes[(machine_of[r] + 1) % machines] += s.bytes;
  return out;
}

}  // namespace troupe::job
