// Defines the actor system that a session makes if the host program provides none.
#pragma once

#include <cstddef>

#include "actors/caf.hpp"
#include "actors/host.hpp"

namespace troupe::actors {

/// Number of scheduler threads of the actor system; rank, supervisor and loader actors run on them, which decide and
/// never compute.
inline constexpr size_t own_workers = 2;

/// Settings of an actor system that a session makes for itself.
struct system_config : caf::actor_system_config {
  system_config() {
    actors::add_message_types(*this);
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", own_workers);
    set("scheduler.max-throughput", size_t{100});  // limit of messages that an actor handles in a row
  }
};

struct own_system {  ///< actor system for one session
  system_config settings;
  caf::actor_system system{settings};
};

}  // namespace troupe::actors
