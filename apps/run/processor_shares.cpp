#include "apps/run/processor_shares.hpp"

#include <hwloc.h>
#include <sched.h>

#include <climits>
#include <memory>

namespace troupe::apps {

std::vector<std::vector<uint32_t>> processor_shares(uint32_t processes, const std::string& synthetic) {
  hwloc_topology_t made = nullptr;
  if (processes == 0 || hwloc_topology_init(&made) != 0) return {};
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> machine(made, hwloc_topology_destroy);
  if (!synthetic.empty())
    hwloc_topology_set_synthetic(made, synthetic.c_str());
  else
    hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM | HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING);
  if (hwloc_topology_load(made) != 0) return {};
  const int all = hwloc_get_nbobjs_by_type(made, HWLOC_OBJ_PU);
  if (all < 0 || static_cast<uint32_t>(all) < processes * share_processors_min) return {};
  hwloc_obj_t root = hwloc_get_root_obj(made);
  std::vector<hwloc_cpuset_t> sets(processes, nullptr);
  if (hwloc_distrib(made, &root, 1, sets.data(), processes, INT_MAX, 0) != 0) return {};
  std::vector<std::vector<uint32_t>> out;
  for (hwloc_cpuset_t set : sets) {
    auto& share = out.emplace_back();
    for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i))
      share.push_back(static_cast<uint32_t>(i));
    hwloc_bitmap_free(set);
  }
  return out;
}

void take_processor_share(uint32_t place, uint32_t processes) {
  const auto shares = processor_shares(processes);
  if (shares.empty()) return;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (const uint32_t p : shares[place % processes])
    if (p < CPU_SETSIZE) CPU_SET(p, &mine);
  (void)::sched_setaffinity(0, sizeof mine, &mine);
}

}  // namespace troupe::apps
