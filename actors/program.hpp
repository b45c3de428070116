// Stores the order and the dependencies of a plan in the form in which lanes count them, computed once per plan instead
// of once per step. Owns also the counting, which does not depend on actors and is tested alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// Number of instructions that a lane may start beyond those that it has reported as ended; several times
/// progress_batch, so that a lane never waits for the rank's permission to go on.
inline constexpr uint32_t window_instructions = 64;

/// Returns the seat of a lane actor, its number within its rank. For chunk 0 this is the number of the lane; the
/// compute-lane actors of further chunks (parts of the model that the rank computes) are numbered after all lanes.
constexpr uint32_t seat_of(plan::lane l, uint32_t chunk = 0) {
  return chunk == 0 ? static_cast<uint32_t>(l) : plan::num_lanes + chunk - 1;
}
/// Returns the number of the rank's lane actors plus 1 for the control lane, which the rank actor runs itself.
uint32_t num_seats(const plan::rank_plan& p);

/// A plan as the lanes of a rank execute it: the order in which each lane starts its instructions, and the
/// dependencies. Derived from the plan, immutable, shared by the lanes.
struct program {
  explicit program(std::shared_ptr<const plan::rank_plan> p);

  std::shared_ptr<const plan::rank_plan> plan;
  /// [instruction id]: number of instructions whose ends must be reported to this instruction's lane before it starts
  std::vector<uint32_t> num_dependencies;
  std::vector<uint32_t> position;  ///< position of an instruction in its lane, by instruction id
  /// [instruction id]: seat (number of the lane actor) that runs the instruction. On the compute lane this is the stage
  /// that owns the instruction's unit, or the first stage for an instruction without a unit.
  std::vector<uint32_t> seat;
  /// [seat]: ids of the instructions that this lane actor runs, in the order of the lane
  std::vector<std::vector<uint32_t>> orders;
  std::vector<uint32_t> place;  ///< [instruction id]: position of the instruction in `orders` of its seat
  /// [lane]: lists of instructions that start in order, as positions in the lane. The fabric lane has one list for each
  /// communicator, every other lane one list.
  std::vector<std::vector<uint32_t>> lines[plan::num_lanes];
  std::vector<uint32_t> line_of;  ///< index in `lines` of the instruction's line in its lane, by instruction id
  /// [instruction id]: ids of the instructions, on any lane, to which the end of this instruction must be reported
  std::vector<std::vector<uint32_t>> dependents;
  /// [instruction id]: the other lane actors to which the end of this instruction must be reported, by seat.
  std::vector<std::vector<uint32_t>> told;
  std::vector<bool> tells;  ///< [instruction id]: true if the end of the instruction must be reported to another seat
  /// [communicator][sequence]: id of the instruction that executes this collective
  std::vector<std::vector<uint32_t>> collectives;
  /// [communicator][sequence]: name of the collective in error messages, which is equal on all members
  std::vector<std::vector<std::string>> names;

 private:
  void take_seats();
  void draw_lines(uint32_t lane);
};

/// Decides which instructions a lane actor may start. Each line (a list of instructions that start in order) starts its
/// next instruction when the instruction's dependencies have ended and fewer than the allowed number of instructions
/// have started. A line of the fabric lane without a running instruction ignores that number, so that one communicator
/// never blocks another: windows then add no circular wait to the dependencies, which the plan's checker has proved
/// free of cycles. Does not depend on time, threads or messages.
class sequencer {
 public:
  void begin(std::shared_ptr<const program> what, plan::lane mine, uint32_t chunk = 0);
  /// Allows `started_max` instructions of the run to have been started in total; a smaller number than before has no
  /// effect.
  void extend(uint32_t started_max) { window_ = std::max(window_, started_max); }
  /// Records that instruction `id` has ended, on this lane or on another one.
  void ended(uint32_t id);
  /// Returns the id of an instruction that may start now, and counts it as started; if several may, the first in the
  /// lane's order. None: none may start.
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
  // [position in the seat's order]: number of dependencies of the instruction that have not ended
  std::vector<uint32_t> waiting_;
  // [line]: position of the next instruction to start, and number of started instructions that have not ended.
  std::vector<uint32_t> next_, under_way_;
  uint32_t num_started_ = 0, window_ = 0, num_ended_ = 0;
};

}  // namespace troupe::actors
