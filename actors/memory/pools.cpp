#include "actors/memory/pools.hpp"

#include "plan/vote_layout.hpp"

namespace troupe::actors {

using owner = plan::pool;

uint64_t pool_bytes(const plan::rank_plan& trains, const plan::pool_sizes& sizes, owner which) {
  const auto& t = trains.memory;
  switch (which) {
    case owner::parameters:
      return t.parameters;
    case owner::near_copies:
      return t.near_copies;
    case owner::master:
      return t.master;
    case owner::moments:
      return t.moments;
    case owner::accumulated:
      return t.accumulated;
    case owner::undo:
      return t.undo;
    case owner::buckets:
      return t.gradients;
    case owner::directions:
      return t.directions;
    case owner::votes:
      return plan::vote_elements(*trains.layout) * sizeof(double);
    case owner::norms:
      return plan::measured_elements(*trains.layout) * sizeof(double);
    case owner::gathered:
    case owner::staging:
    case owner::transfers:
    case owner::compressed:
    case owner::states:
    case owner::shards:
    case owner::reduced:
    case owner::activations:
      return sizes.of(which);
  }
  return 0;
}

device::tier pool_tier(const plan::plan_options& o, owner which, device::tier windows) {
  // If the device has memory of its own (`apart`), collectives access pools in host memory, which are therefore pinned.
  const auto on_host = o.tiers.apart ? device::tier::pinned : device::tier::huge;
  const auto where = [&](plan::tier t) { return t == plan::tier::device ? device::tier::device : on_host; };
  switch (which) {
    case owner::gathered:
    case owner::transfers:
    case owner::compressed:
    case owner::buckets:
      return device::tier::device;
    case owner::parameters:
    case owner::near_copies:
      return where(o.tiers.parameters);
    case owner::master:
    case owner::moments:
    case owner::accumulated:
    case owner::undo:
    case owner::directions:
      return where(o.tiers.optimizer);
    case owner::votes:
    case owner::norms:
      return device::tier::pinned;
    case owner::staging:
      return device::tier::huge;
    case owner::activations:
      return o.tiers.activations == plan::tier::nvme ? windows : device::tier::huge;
    case owner::states:
    case owner::shards:
    case owner::reduced:
      return windows;
  }
  return device::tier::huge;
}

}  // namespace troupe::actors
