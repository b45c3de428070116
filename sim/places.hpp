// Defines the places of a simulated world that tests name: a rank, a host, the link between two hosts.
#pragma once

#include <cstdint>

namespace troupe::sim {

/// A rank, by its number.
struct rank {
  uint32_t number = 0;
};

/// A host, by its number: world_options::ranks_per_host consecutive ranks.
struct host {
  uint32_t number = 0;
};

/// The link between two hosts, in both directions.
struct link {
  uint32_t from = 0, to = 0;
};

}  // namespace troupe::sim
