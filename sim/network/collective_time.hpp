// Computes how long collectives take in a network, and what passes each link. Chooses the fastest algorithm.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "sim/network/collective_phases.hpp"
#include "sim/network/routes.hpp"

namespace troupe::sim {

struct collective_time {
  double seconds = 0;
  /// [group]: seconds of its own transfers, while all groups start each phase together; the slowest may be below
  /// `seconds`, if another group is slower in another phase.
  std::vector<double> group_seconds;
  collective_algorithm how = collective_algorithm::ring;
  uint32_t chunks = 1;             ///< number of parts of a broadcast by ring
  std::vector<double> link_bytes;  ///< [link]: bytes that pass the link
};

/// Returns the time of a collective that all groups run at once, by the fastest algorithm, or by `only`. A phase takes
/// until its last transfer is sent, and then the longest latency of its routes. A faster link, in bytes a second or
/// latency, never makes the time longer, because all transfers of a phase have equal sizes (simulate_transfers()).
///
/// Errors (bad_input): no group, an empty one, groups of different sizes, a device that is twice in the groups or not
/// in the network, bytes that are negative or not finite, an algorithm that has no such collective for these groups.
core::result<collective_time> time_of(collective_kind what, double bytes, std::span<const device_group> groups,
                                      network_routes& routes, std::optional<collective_algorithm> only = {});

}  // namespace troupe::sim
