// The actor system of a session whose host provides none.
#pragma once

#include <cstddef>

#include "actors/caf.hpp"
#include "actors/host.hpp"

namespace troupe::actors {

/// Threads of the scheduler: rank, supervisor and loader run here; they decide and never compute.
inline constexpr size_t own_workers = 2;

/// CAF's settings for a process that Troupe owns.
struct system_config : caf::actor_system_config {
  system_config() {
    actors::add_message_types(*this);
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", own_workers);
    set("scheduler.max-throughput", size_t{100});  // messages in a row: no actor keeps a worker to itself
  }
};

struct own_system {  ///< actor system for one session
  system_config settings;
  caf::actor_system system{settings};
};

}  // namespace troupe::actors
