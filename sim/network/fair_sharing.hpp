// Simulates transfers that share the links of a network by max-min fairness: no transfer's rate can grow without a cut
// of one that is not larger. Rates are exact between two events; an event is the start or the end of a transfer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/network/routes.hpp"

namespace troupe::sim {

struct transfer {  ///< bytes that one device sends to another one
  uint32_t from = 0, to = 0;
  double bytes = 0;
  double start_s = 0;
};

struct transfer_times {
  std::vector<double> sent_s;      ///< [transfer]: when its last byte enters the network
  std::vector<double> latency_s;   ///< [transfer]: latency of its route: its last byte arrives this much later
  std::vector<double> link_bytes;  ///< [link]: bytes of all transfers that pass the link
};

/// Simulates transfers. Each has one rate, of which each link of its route carries the route's fraction. Ends less than
/// 1e-12 of the time apart are one event. Requires bytes and times that are finite and at least 0.
///
/// A transfer is sent at the latest after the sum of bytes / bandwidth over the resources of its route, because one of
/// them is busy at any time. A faster link may still let another transfer end later, by that factor at most; it cannot
/// delay the last one of transfers of equal size that start together, which then takes what the busiest resource takes.
transfer_times simulate_transfers(network_routes& routes, std::span<const transfer> transfers);

}  // namespace troupe::sim
