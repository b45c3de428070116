// A plan's dependencies in the form that lanes count, worked out once per plan instead of once per step.
// Also the counting itself, free of actors, so that it is tested alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// Which of a rank's actors runs an instruction: its lane's, numbered as the lanes are, or, of the compute lane, the
/// stage of its chunk. The first chunk's seat is the compute lane's own; those of the others follow behind all lanes.
using seat = uint32_t;

/// Seats of the ranks at a pipeline coordinate, the control lane's included.
uint32_t num_seats(const plan::job_layout& l, uint32_t pipeline);

/// The lane whose instructions run there.
constexpr plan::lane lane_of(seat s) { return s < plan::num_lanes ? static_cast<plan::lane>(s) : plan::lane::compute; }

/// "shard lane", "compute lane", "compute lane of chunk 1": for people.
std::string name_of(seat s);

/// Derived from a plan, immutable, shared by the lanes of a rank.
struct program {
  explicit program(std::shared_ptr<const plan::rank_plan> p);

  std::shared_ptr<const plan::rank_plan> plan;
  std::vector<seat> seat_of;               ///< [id]
  std::vector<uint32_t> num_dependencies;  ///< [id]: endings that its seat has to be told of before it starts
  std::vector<uint32_t> position;          ///< [id]: in its lane
  /// [seat]: positions in its lane. The compute lane's order holds across its stages: one tells the next.
  std::vector<std::vector<uint32_t>> orders;
  /// [lane]: what starts in order, as positions in the lane: the whole lane, but of the fabric's each communicator's.
  std::vector<std::vector<uint32_t>> lines[plan::num_lanes];
  std::vector<uint32_t> line_of;                   ///< [id]: among its lane's
  std::vector<std::vector<uint32_t>> dependents;   ///< [id]: ids that have to be told of its end, any seat
  std::vector<std::vector<seat>> seats_waiting;    ///< [id]: others with a dependent
  std::vector<std::vector<uint32_t>> collectives;  ///< [communicator][sequence]: id

 private:
  void take_seats();
  void draw_lines(uint32_t lane);
  void wait_for(uint32_t id, uint32_t on);
};

/// Decides what a seat may start. Each of its lines starts in order, an instruction when its dependencies have ended
/// and the window has room for it. A line of which nothing is under way needs no room: one line never keeps another
/// waiting, so windows add no circle to what a plan's proof excludes. Knows nothing of time, threads or messages.
class sequencer {
 public:
  void begin(std::shared_ptr<const program> what, seat mine);
  /// So many instructions of the run may have started.
  void extend(uint32_t started_max) { window_ = std::max(window_, started_max); }
  /// `id` has ended, on this seat or another.
  void ended(uint32_t id);
  /// The next instruction if one may start now, of several the first in the order; it counts as started.
  std::optional<uint32_t> next();

  [[nodiscard]] uint32_t num_ended() const { return num_ended_; }
  [[nodiscard]] uint32_t size() const { return program_ ? static_cast<uint32_t>(order().size()) : 0; }
  [[nodiscard]] bool all_ended() const { return num_ended_ == size(); }

 private:
  [[nodiscard]] const std::vector<uint32_t>& order() const { return program_->orders[seat_]; }
  [[nodiscard]] uint32_t id_at(uint32_t position) const {
    return program_->plan->lanes[static_cast<size_t>(lane_of(seat_))][position];
  }
  [[nodiscard]] const std::vector<std::vector<uint32_t>>& lines() const { return program_->lines[seat_]; }

  std::shared_ptr<const program> program_;
  seat seat_ = 0;
  std::vector<uint32_t> waiting_;           // [position in the lane]: dependencies that have not ended
  std::vector<uint32_t> next_, under_way_;  // [line]
  uint32_t num_started_ = 0, window_ = 0, num_ended_ = 0;
};

}  // namespace troupe::actors
