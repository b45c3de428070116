// How long the ends of a link may be silent, as parts of cluster.lost_after. Owns these numbers; what follows from
// silence is supervision.hpp's, agent_state.hpp's and process_state.hpp's.
#pragma once

#include <cstdint>

namespace troupe::cluster {

/// How often an end says that it lives.
constexpr int64_t beat_ns(int64_t lost_after_ns) { return lost_after_ns / 20; }

/// Silence of a machine after which its supervisor does not beat for its processes any more: they give their ranks up
/// before it is lost, though they might hear.
constexpr int64_t unheard_ns(int64_t lost_after_ns) { return 2 * beat_ns(lost_after_ns); }

/// Silence after which nothing is known of a machine and its processes.
constexpr int64_t machine_silence_ns(int64_t lost_after_ns) { return lost_after_ns * 2 / 5; }

/// Since a process said the last beat that was answered: it gives its ranks up, before its supervisor plans without
/// them. A cut of 0.6 of lost_after costs nothing, though it begins before a beat, what is sent again comes later than
/// it heals, and each end answers with its own next beat.
constexpr int64_t give_up_ns(int64_t lost_after_ns) { return lost_after_ns * 3 / 5 + 4 * beat_ns(lost_after_ns); }

}  // namespace troupe::cluster
