// A plan's dependencies in the form that lanes count, worked out once per plan instead of once per step.
// Also the counting itself, free of actors, so that it is tested alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// A rank's lane actors by number: a lane's own, which for the compute lane is the stage of the first chunk, and behind
/// all lanes the stages of the other chunks.
constexpr uint32_t seat_of(plan::lane l, uint32_t chunk = 0) {
  return chunk == 0 ? static_cast<uint32_t>(l) : plan::num_lanes + chunk - 1;
}
/// Lane actors of the rank of `p`, and the control lane, which the rank runs itself.
uint32_t num_seats(const plan::rank_plan& p);

/// Derived from a plan, immutable, shared by the lanes of a rank.
struct program {
  explicit program(std::shared_ptr<const plan::rank_plan> p);

  std::shared_ptr<const plan::rank_plan> plan;
  std::vector<uint32_t> num_dependencies;  ///< [id]: endings that its lane has to be told of before it starts
  std::vector<uint32_t> position;          ///< [id]: in its lane
  /// [id]: who runs it. Of the compute lane the stage whose unit it is, or the first where it is of none.
  std::vector<uint32_t> seat;
  std::vector<std::vector<uint32_t>> orders;  ///< [seat]: ids in the order in which they are started
  std::vector<uint32_t> place;                ///< [id]: in the order of its seat
  /// [lane]: what starts in order, as positions in the lane: the whole lane, but of the fabric's each communicator's.
  std::vector<std::vector<uint32_t>> lines[plan::num_lanes];
  std::vector<uint32_t> line_of;                   ///< [id]: among its lane's
  std::vector<std::vector<uint32_t>> dependents;   ///< [id]: ids that have to be told of its end, any lane
  std::vector<std::vector<uint32_t>> told;         ///< [id]: other seats with a dependent
  std::vector<bool> tells;                         ///< [id]: whether there is one
  std::vector<std::vector<uint32_t>> collectives;  ///< [communicator][sequence]: id

 private:
  void take_seats();
  void draw_lines(uint32_t lane);
};

/// Decides what a lane, or of the compute lane a stage, may start. Each of its lines starts in order, an instruction
/// when its dependencies have ended and the window has room for it. A line of which nothing is under way needs no room:
/// one line never keeps another waiting, so windows add no circle to what a plan's proof excludes. Knows nothing of
/// time, threads or messages.
class sequencer {
 public:
  void begin(std::shared_ptr<const program> what, plan::lane mine, uint32_t chunk = 0);
  /// So many instructions of the run may have started.
  void extend(uint32_t started_max) { window_ = std::max(window_, started_max); }
  /// `id` has ended, on this lane or another.
  void ended(uint32_t id);
  /// The next instruction if one may start now, of several the first in the lane; it counts as started.
  std::optional<uint32_t> next();

  [[nodiscard]] uint32_t num_ended() const { return num_ended_; }
  [[nodiscard]] uint32_t size() const { return program_ ? static_cast<uint32_t>(order().size()) : 0; }
  [[nodiscard]] bool all_ended() const { return num_ended_ == size(); }

 private:
  [[nodiscard]] const std::vector<uint32_t>& order() const { return program_->orders[seat_]; }
  [[nodiscard]] const std::vector<std::vector<uint32_t>>& lines() const {
    return program_->lines[static_cast<size_t>(lane_)];
  }

  std::shared_ptr<const program> program_;
  plan::lane lane_ = plan::lane::compute;
  uint32_t seat_ = 0;
  std::vector<uint32_t> waiting_;           // [place]: dependencies that have not ended
  std::vector<uint32_t> next_, under_way_;  // [line]
  uint32_t num_started_ = 0, window_ = 0, num_ended_ = 0;
};

}  // namespace troupe::actors
