// Owns the limits of silence on a link, as fractions of cluster.lost_after. Leaves the consequences of silence to
// supervision.hpp, agent_state.hpp and process_state.hpp.
#pragma once

#include <cstdint>

namespace troupe::cluster {

/// Returns the interval in nanoseconds at which each end of a link sends heartbeats.
constexpr int64_t beat_ns(int64_t lost_after_ns) { return lost_after_ns / 20; }

/// Returns the silence of a machine after which its supervisor stops sending beats to its processes: they give their
/// ranks up before the machine is lost, even if they can still receive.
constexpr int64_t unheard_ns(int64_t lost_after_ns) { return 2 * beat_ns(lost_after_ns); }

/// Returns the silence of a machine after which the state of its processes counts as unknown.
constexpr int64_t machine_silence_ns(int64_t lost_after_ns) { return lost_after_ns * 2 / 5; }

/// Returns the time, since a process sent the last answered beat, after which it gives its ranks up, before its
/// supervisor plans without them. A network cut of 0.6 of lost_after costs nothing: the four beats on top cover that
/// the cut begins before a beat, that data sent again arrives later than the cut heals, and that each end answers with
/// its own next beat.
constexpr int64_t give_up_ns(int64_t lost_after_ns) { return lost_after_ns * 3 / 5 + 4 * beat_ns(lost_after_ns); }

}  // namespace troupe::cluster
