// Stores a plan's dependencies in the form that lanes count, computed once per plan instead of once per step. Owns also
// the counting, which does not depend on actors and is tested alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// Returns the seat of a lane actor, its number within its rank: for a lane the lane's number, which for the compute
/// lane is the stage of the first chunk; the stages of the other chunks are numbered after all lanes.
constexpr uint32_t seat_of(plan::lane l, uint32_t chunk = 0) {
  return chunk == 0 ? static_cast<uint32_t>(l) : plan::num_lanes + chunk - 1;
}
/// Returns the number of the rank's lane actors plus 1 for the control lane, which the rank actor runs itself.
uint32_t num_seats(const plan::rank_plan& p);

/// The order in which a rank's lanes start the instructions of a plan. Derived from the plan, immutable, shared by the
/// lanes.
struct program {
  explicit program(std::shared_ptr<const plan::rank_plan> p);

  std::shared_ptr<const plan::rank_plan> plan;
  /// Number of instructions whose ends must be reported to an instruction's lane before it starts, by instruction id
  std::vector<uint32_t> num_dependencies;
  std::vector<uint32_t> position;  ///< position of an instruction in its lane, by instruction id
  /// Seat that runs an instruction, by instruction id. On the compute lane it is the stage that owns the instruction's
  /// unit, or the first stage without a unit.
  std::vector<uint32_t> seat;
  /// Ids of a seat's instructions in the order in which they start, by seat
  std::vector<std::vector<uint32_t>> orders;
  std::vector<uint32_t> place;  ///< position of an instruction in its seat's order, by instruction id
  /// Lists of instructions that start in order, as positions in the lane, by lane: one list for the whole lane; on the
  /// fabric lane one list for each communicator.
  std::vector<std::vector<uint32_t>> lines[plan::num_lanes];
  std::vector<uint32_t> line_of;  ///< index of an instruction's line within its lane, by instruction id
  /// Ids of the instructions, on any lane, that depend on an instruction, by instruction id
  std::vector<std::vector<uint32_t>> dependents;
  /// Other seats with an instruction that depends on this one, by instruction id.
  std::vector<std::vector<uint32_t>> told;
  std::vector<bool> tells;  ///< [instruction id]: true if the end of the instruction must be reported to another seat
  /// Id of the instruction that belongs to a collective, by communicator and sequence
  std::vector<std::vector<uint32_t>> collectives;

 private:
  void take_seats();
  void draw_lines(uint32_t lane);
};

/// Decides which instructions a lane, or a stage of the compute lane, may start. Each line starts in order; an
/// instruction starts when its dependencies have ended and the window has room for it. A line without a running
/// instruction needs no room: one line never blocks another, so windows add no circular wait to those that a plan's
/// proof excludes. Does not depend on time, threads or messages.
class sequencer {
 public:
  void begin(std::shared_ptr<const program> what, plan::lane mine, uint32_t chunk = 0);
  /// Allows `started_max` instructions of the run to have started; never fewer than before.
  void extend(uint32_t started_max) { window_ = std::max(window_, started_max); }
  /// Records that instruction `id` has ended, on this lane or on another one.
  void ended(uint32_t id);
  /// Returns the next instruction if one may start now, the first in the lane if there are several, and counts it as
  /// started.
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
  // [position in the seat's order]: number of the instruction's dependencies that have not ended
  std::vector<uint32_t> waiting_;
  // Position of the next instruction, and number of started instructions that have not ended, by line.
  std::vector<uint32_t> next_, under_way_;
  uint32_t num_started_ = 0, window_ = 0, num_ended_ = 0;
};

}  // namespace troupe::actors
