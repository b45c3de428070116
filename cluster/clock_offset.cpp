#include "cluster/clock_offset.hpp"

namespace troupe::cluster {

void clock_offset::hear(const beat& b, int64_t now_ns) {
  if (b.said_ns == 0) return;
  received_ns_ = now_ns;
  of_ns_ = b.said_ns;
  if (b.of_ns == 0 || b.received_ns == 0) return;
  // `b` answers the beat that this process sent at b.of_ns and the other process received at b.received_ns (other
  // clock); the other process sent `b` at b.said_ns (other clock), and it arrived at now_ns.
  const int64_t away_ns = now_ns - b.of_ns, held_ns = b.said_ns - b.received_ns;
  const int64_t trip_ns = away_ns - held_ns;
  // Negative times mean that a clock was set in between, or that the other process sent wrong values.
  if (away_ns < 0 || held_ns < 0 || trip_ns < 0) return;
  const int64_t offset_ns = b.received_ns - b.of_ns - trip_ns / 2;
  if (trips_.size() == trips_max) trips_.pop_front();
  trips_.push_back({now_ns, {offset_ns, trip_ns / 2 + 1}});
}

std::optional<clock_reading> clock_offset::at(int64_t now_ns) const {
  std::optional<clock_reading> best;
  for (const trip& t : trips_) {
    const int64_t age_ms = (now_ns - t.at_ns) / 1'000'000;
    const int64_t error_ns = t.said.error_ns + age_ms * (drift_ns_per_s / 1000);
    if (!best || error_ns < best->error_ns) best = {t.said.offset_ns, error_ns};
  }
  return best;
}

}  // namespace troupe::cluster
