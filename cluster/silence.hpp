// Owns the limits of silence (time without a message) on a link, as fractions of cluster.lost_after. Leaves the
// consequences of silence to supervision.hpp, agent_state.hpp and process_state.hpp.
#pragma once

#include <cstdint>

namespace troupe::cluster {

/// Returns the interval in nanoseconds at which each end of a link sends heartbeats.
constexpr int64_t beat_ns(int64_t lost_after_ns) { return lost_after_ns / 20; }

/// Returns for how many nanoseconds a machine may send no message before the supervisor stops sending heartbeats to its
/// processes: they give their ranks up before the machine is lost, even if they can still receive.
constexpr int64_t beat_silence_ns(int64_t lost_after_ns) { return 2 * beat_ns(lost_after_ns); }

/// Returns for how many nanoseconds a machine may send no message before the state of its processes counts as unknown.
constexpr int64_t machine_silence_ns(int64_t lost_after_ns) { return lost_after_ns * 2 / 5; }

/// Returns for how many nanoseconds a process keeps its ranks without an answer, counted from the time at which it sent
/// its last answered beat. It then gives its ranks up, before its supervisor plans without them. A network cut of 0.6
/// of lost_after costs nothing. Four beats are added to these 0.6, because the cut may begin just before a beat,
/// because lost data is sent again only some time after the cut has healed, and because each end answers with its next
/// beat.
constexpr int64_t give_up_ns(int64_t lost_after_ns) { return lost_after_ns * 3 / 5 + 4 * beat_ns(lost_after_ns); }

}  // namespace troupe::cluster
