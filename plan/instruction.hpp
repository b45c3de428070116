// Owns the vocabulary of a step: the kinds of instructions, their lanes and their dependencies. See
// docs/architecture.md.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe::plan {

/// The part of a rank that runs an instruction. Each lane runs its instructions in the order of the plan.
enum class lane : uint8_t { control, compute, fabric, shard, writer, io };
inline constexpr uint32_t num_lanes = 6;

/// The kind of an instruction. Each comment names the lane first, then the effect.
enum class kind : uint8_t {
  load,     ///< control lane: waits for the tokens of micro-batch `micro` from the loader
  gather,   ///< fabric lane: gathers the full parameters of gather set `subject`
  release,  ///< compute lane: releases the buffer of gather set `subject`
  /// compute lane: computes value ranges for the quantisation groups of unit `subject` that are split over tensor
  /// ranks: the ranges of this rank's part of each group
  survey,
  agree,     ///< fabric lane: all-gathers the value ranges of `survey` over the tensor group
  compress,  ///< compute lane: writes the compressed weights that unit `subject` multiplies with
  /// fabric lane: sends the output (or the gradient of the input) of unit `subject` to its neighbour in the pipeline
  send,
  /// fabric lane: receives the input (or the gradient of the output) of unit `subject` from its neighbour in the
  /// pipeline
  receive,
  /// fabric lane: combines the output of segment `segment` of unit `subject`, or the gradient of its input, over the
  /// ranks of a tensor or sequence group. An output may be exchanged in pieces; the instruction then moves piece
  /// `piece` alone.
  exchange,
  /// compute lane: runs segment `segment` of unit `subject`. If the product that ends the segment is computed in pieces
  /// of rows, forward computes the first piece.
  forward,
  multiply,  ///< compute lane: computes piece `piece` of the product that ends segment `segment` of unit `subject`
  /// compute lane: repeats the forward of unit `subject` from its saved input; only of segment `segment` if the
  /// exchanges between segments are repeated
  recompute,
  /// compute lane: runs the backward of segment `segment` of unit `subject`; with use::input only its input part
  backward,
  backward_weight,  ///< compute lane: runs the weight part of a split backward, which writes the gradients of the
                    ///< parameters
  reduce,           ///< fabric lane: reduces gradient bucket `subject` over the ranks
  /// fabric lane: sends reduced gradients of a tied parameter between two ranks, in both directions; `subject` is the
  /// tie_exchange
  tie,
  tied_sum,  ///< shard lane: adds the gradients of all uses of tied parameter `subject`
  /// shard lane: computes one square sum for each block (core::partition_grain elements) of this rank's part of bucket
  /// `subject`
  norm,
  vote,  ///< fabric lane: sends the square sums and losses of every rank to all ranks
  /// shard lane: updates the moments of sub-group `subject`, and computes the whole-parameter values that its update
  /// needs
  prepare,
  measure,        ///< fabric lane: sends every rank's square sums of weights and update directions to all ranks
  collect,        ///< fabric lane: sends the whole update directions of matrix set `subject` to all ranks of the set
  orthogonalise,  ///< shard lane: orthogonalises this rank's matrices of matrix set `subject`
  spread,         ///< fabric lane: sends the orthogonal matrices of matrix set `subject` to all ranks of the set
  update,         ///< shard lane: runs the optimizer step of sub-group `subject`
  undo,           ///< shard lane: undoes the update of sub-group `subject` that ran before the vote
  redo,           ///< shard lane: updates sub-group `subject` again, with the gradients that the vote has clipped
  publish,        ///< fabric lane: sends the updated parameters of publish set `subject` to all ranks that hold the set
  snapshot,       ///< writer lane: copies block `subject` of the checkpoint into its staging slot
  /// writer lane: hands block `subject` of the checkpoint to the disk; the bytes may reach the disk after the step's
  /// end
  write,
  swap_in,   ///< io lane: reads `what` of `subject` from the rank's swap file into its window
  swap_out,  ///< io lane: writes `what` of `subject` from its window to the rank's swap file
};

/// The data that a swap moves. The value also determines which list the swap's subject is an index of.
enum class swapped : uint8_t {
  nothing,      ///< value of instructions that do not swap
  states,       ///< masters, moments and copies of a sub-group
  gradients,    ///< reduced gradients of a bucket
  shards,       ///< this rank's own slices of a gather set's parameters
  activations,  ///< input of a unit
};

/// The repetition, within one step, that an instruction belongs to.
enum class repetition : uint8_t {
  none,       ///< value of every instruction that belongs to no repetition
  recompute,  ///< exchange that a recompute repeats
  redo,       ///< swap of the states of a redo
};

/// The outcome of the step's vote, equal on all ranks. `skipped`: the vote found an overflow. `clipped`: no overflow,
/// but a norm above its limit, so that gradients are clipped. `not_skipped`: neither.
enum class branch : uint8_t { not_skipped, clipped, skipped };

/// The branches in which an instruction acts. `not_skipped`: acts whether gradients are clipped or not. `undone`: acts
/// if the step is clipped or skipped, so that an update before the vote is undone.
enum class guard : uint8_t { always, not_skipped, clipped, skipped, undone };

/// True if an instruction with this guard acts in a step whose vote took branch `taken`.
constexpr bool acts(guard g, branch taken) {
  switch (g) {
    case guard::always:
      return true;
    case guard::not_skipped:
      return taken != branch::skipped;
    case guard::clipped:
      return taken == branch::clipped;
    case guard::skipped:
      return taken == branch::skipped;
    case guard::undone:
      return taken != branch::not_skipped;
  }
  return false;
}

/// A use of a unit: forward, backward, or one of the two parts of a split backward.
enum class use : uint8_t {
  forward,
  backward,
  input,    ///< the part of backward that computes the gradient of the input
  weights,  ///< the part of backward that computes the gradients of the parameters; it reads no parameters
};

/// Returns the direction of the data flow of a use: forward, or backward for a whole backward and for each of its
/// parts.
constexpr use way_of(use u) { return u == use::forward ? use::forward : use::backward; }
constexpr bool reads_parameters(use u) { return u != use::weights; }
constexpr bool writes_gradients(use u) { return u == use::backward || u == use::weights; }

inline constexpr uint32_t none = 0xFFFFFFFF;

/// One use of a unit, or of some of its segments if a forward and a backward alternate segment by segment.
struct unit_use {
  uint32_t unit = 0, micro = 0;
  plan::use kind = use::forward;
  /// Segments [first, end) of the unit; `end` is at most the unit's number of segments.
  uint32_t first = 0, end = none;
  [[nodiscard]] bool has(uint32_t segment) const { return segment >= first && segment < end; }
};

/// The uses of units that one rank computes in a step, in order (plan/schedule/).
using schedule = std::vector<unit_use>;

/// Slots that an operation names: numbers of buffers of its plan, or of its draft; none: the operation names no such
/// slot.
struct operation_slots {
  uint32_t parameters = none;  ///< slot of gathered parameters
  uint32_t compressed = none;  ///< slot of the unit's compressed parameters
  uint32_t gradients = none;   ///< slot of the bucket that is reduced
  uint32_t matrices = none;    ///< slot of the whole matrices of a matrix set
  uint32_t staging = none;     ///< slot of a block of the checkpoint
  uint32_t moved = none;       ///< slot of the data that ranks send each other, or that a tied_sum adds
  uint32_t arrived = none;  ///< slot of data from another stage or from other ranks, which a compute instruction reads
  uint32_t leaving = none;  ///< slot that a compute instruction fills for another stage or for other ranks
  uint32_t window = none;  ///< window that a swap fills or empties, and that other kinds use instead of resident memory
};

/// The effect of an instruction, without its place in the order. The rows of kinds.cpp list the fields and slots that
/// operations of a kind have; all other fields have their default values.
struct operation {
  plan::kind kind = kind::load;
  plan::guard guard = guard::always;
  plan::use use = use::forward;
  plan::swapped what = plan::swapped::nothing;  ///< data that a swap moves
  uint32_t subject = none, micro = 0;
  uint32_t segment = none;
  uint32_t piece = 0;  ///< number of the piece of rows of a segment's output (group_exchange::pieces)
  operation_slots slots;
  /// gather: reads the second copy of parameters (hpZ). release: first stores this rank's part of that copy.
  bool near = false;
  plan::repetition repeats = repetition::none;
  /// Bytes of the data that the instruction moves: between ranks (those of all ranks together), to or from a disk, or
  /// in memory. The row says how often the instruction reads and writes them (kinds.hpp, `touched`).
  uint64_t moved_bytes = 0;
  double flops = 0;
};

/// One instruction of a plan.
struct instruction : operation {
  uint32_t id = 0;  ///< index of the instruction in rank_plan::instructions
  plan::lane lane = lane::control;
  uint32_t communicator = none;  ///< index of the communicator in job_layout::communicators; fabric instructions only
  uint32_t sequence = none;      ///< position among this step's collectives of the instruction's communicator
  std::vector<uint32_t> after;   ///< instructions of this rank that must have ended before this one starts, ascending
};

std::string_view name_of(kind k);     ///< Returns the name of a kind as tools and errors print it.
std::string_view name_of(lane l);     ///< Returns the name of a lane as tools and errors print it.
std::string_view name_of(swapped x);  ///< Returns the name of swapped data as tools and errors print it.
lane lane_of(kind k);                 ///< Returns the lane that runs instructions of kind `k`.

}  // namespace troupe::plan
