// Writes collectives as phases of transfers, by the algorithms that libraries use: ring, tree, two levels, pairs. Owns
// which device sends what to which; collective_time.hpp computes how long that takes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/network/fair_sharing.hpp"
#include "sim/network/network.hpp"

namespace troupe::sim {

/// A collective. Its bytes are those of a member's whole buffer: the vector that is reduced, all that is gathered, all
/// that a member sends to all (its own part included), the vector that is broadcast.
enum class collective_kind : uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast };
inline constexpr collective_kind all_collectives[] = {collective_kind::all_reduce, collective_kind::reduce_scatter,
                                                      collective_kind::all_gather, collective_kind::all_to_all,
                                                      collective_kind::broadcast};

/// Ring: each member sends to the next one, a broadcast in chunks. Tree: binomial, whole vectors. Two levels: within
/// nodes, then between members at the same place of all nodes. Pairs: each member exchanges with another one in each
/// phase; all_to_all directly, others by dissemination with doubled distances (Bruck's algorithm).
enum class collective_algorithm : uint8_t { ring, tree, two_levels, pairs };
inline constexpr collective_algorithm all_algorithms[] = {collective_algorithm::ring, collective_algorithm::tree,
                                                          collective_algorithm::two_levels,
                                                          collective_algorithm::pairs};

std::string_view name_of(collective_kind k);
std::string_view name_of(collective_algorithm a);

struct collective_phase {  ///< transfers that start together, after those of the phase before have arrived
  std::vector<transfer> transfers;
  double repeats = 1;  ///< number of phases with these transfers
  double sent = 1;     ///< number of phases in which a transfer takes place: fewer while a ring fills and drains
};

/// Devices of a communicator, by rank; the first one is the root of a broadcast.
using device_group = std::vector<uint32_t>;

/// Returns the phases of a collective that all groups run at once, phase by phase. nullopt if the algorithm has no such
/// collective, or for two levels if not all groups have equally many members, at least two, on each of at least two
/// nodes. Requires groups of one size, at least 1. `chunks`: number of parts of a broadcast by ring.
std::optional<std::vector<collective_phase>> phases_of(collective_kind what, collective_algorithm how, double bytes,
                                                       std::span<const device_group> groups, const network& on,
                                                       uint32_t chunks);

}  // namespace troupe::sim
