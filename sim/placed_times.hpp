// Owns how long the collectives of a job take on the devices of a network, and which bytes pass its links in a step:
// reads the plans, and asks network/collective_time.hpp for each kind and size of collective.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/sim/sim.hpp"
#include "core/error.hpp"
#include "fabric/linear_link.hpp"
#include "plan/plan_choice.hpp"
#include "sim/network/network.hpp"

namespace troupe::sim {

/// The ranks of a job on a network: where they are, how long their collectives take, and what passes the links.
struct placed_times {
  std::vector<uint32_t> devices;  ///< [rank]: its device
  /// [communicator]: times of its collectives, exact for the sizes that the plans have; none for one of a single
  /// member, and for one without collectives.
  std::vector<fabric::operation_curves> curves;
  std::vector<double> link_bytes;  ///< [link]: bytes that pass it in a step of the kind that was asked for
};

/// Computes the times and bytes of all collectives of the plans. Communicators that plan::at_once() names share the
/// links while they work; the fastest algorithm is chosen for all of them together, and each has the time of its own
/// transfers. Others have the network to themselves. The bytes of a collective are those which the member that receives
/// most receives, as if all received that much; a transfer has its direction.
///
/// `plans`: by plan_choice, of each rank, or of one of its class, whose communicators have the same order. `counted`:
/// the kind of step whose bytes are added. Requires a device of the network for each rank, and plans of the kind
/// `counted`. Errors (bad_input): a collective that would take more than 10^6 s.
core::result<placed_times> times_on(const network& on, std::vector<uint32_t> devices,
                                    const std::vector<actors::shared_rank_plans>& plans, plan::plan_choice counted);

}  // namespace troupe::sim
