// The vocabulary of a step: kinds of instructions, their lanes, their dependencies. See docs/architecture.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::plan {

/// The part of a rank that runs an instruction. Each lane runs its instructions in the order of the plan.
enum class lane : uint8_t { control, compute, fabric, shard, writer, io };
inline constexpr uint32_t num_lanes = 6;

enum class kind : uint8_t {  ///< of an instruction
  load,                      ///< control: the tokens of micro-batch `micro` from the loader
  gather,                    ///< fabric: full parameters of gather set `subject` into `buffer`
  release,                   ///< compute: give the buffer of gather set `subject` back
  survey,         ///< compute: of unit `subject`, the ranges of what this rank has of groups that compression cuts over
                  ///< tensor ranks, into the slot `output`
  agree,          ///< fabric: the ranges of all ranks of the tensor group to each of them, in `staged`
  compress,       ///< compute: what unit `subject` multiplies with instead of its compressed parameters, into
                  ///< the slot `compressed`
  send,           ///< fabric: the output (or the input's gradient) of unit `subject`, in `staged`, to its
                  ///< neighbour in the pipeline
  receive,        ///< fabric: the input (or the output's gradient) of unit `subject` from it, into `staged`
  exchange,       ///< fabric: the output of segment `segment` of unit `subject`, or the gradient of its
                  ///< input, over the ranks of a tensor group, in `staged`;
                  ///< of the former perhaps piece `piece` alone
  forward,        ///< compute: segment `segment` of unit `subject`; of the product that ends it, where that
                  ///< is worked in pieces of rows, the first piece
  multiply,       ///< compute: piece `piece` of that product
  recompute,      ///< compute: the forward of unit `subject` again, from its saved input; of its segment
                  ///< `segment` alone where exchanges between segments are repeated
  backward,       ///< compute: the backward of segment `segment` of unit `subject`; with use::input its
                  ///< input part
  weigh,          ///< compute: the weight part of that backward, which writes the parameters' gradients
  reduce,         ///< fabric: gradient bucket `subject` over the ranks
  tie,            ///< fabric: reduced gradients of exchange `subject` of a tied parameter, both ways, into
                  ///< `buffer`
  tied_sum,       ///< shard: the gradients of all uses of tie `subject`, received ones in `buffer`, become
                  ///< their sum
  norm,           ///< shard: square sums, per block, of this rank's part of bucket `subject`
  vote,           ///< fabric: every rank's square sums and losses to all
  prepare,        ///< shard: moments of sub-group `subject`, and whole-parameter values that its update needs
  measure,        ///< fabric: every rank's square sums of weights and update directions to all
  collect,        ///< fabric: the update directions of matrix set `subject`, whole, to all
  orthogonalise,  ///< shard: this rank's matrices of matrix set `subject`
  spread,         ///< fabric: the orthogonal matrices of matrix set `subject` to all
  update,         ///< shard: optimizer step of sub-group `subject`
  undo,           ///< shard: undoes a speculative update of sub-group `subject`
  redo,           ///< shard: updates it again, with gradients that the vote has clipped
  publish,        ///< fabric: updated parameters of publish set `subject` to all
  snapshot,       ///< writer: copies block `subject` of the checkpoint into its staging slot `buffer`
  write,          ///< writer: hands that block to the disk; it may arrive there after the step's end
  swap_in,        ///< io: `what` of `subject` from the rank's swap file into the window slot `staged`
  swap_out,       ///< io: `what` of `subject` from that slot into the file
};

/// The data that a swap moves; it also tells the kind of its subject.
enum class swapped : uint8_t {
  nothing,      ///< of every other instruction
  states,       ///< of a sub-group: masters, moments, copies
  gradients,    ///< reduced, of a bucket
  shards,       ///< own slices of a gather set's parameters
  activations,  ///< the input of a unit
};

/// How the step's vote turns out, for all ranks alike: it finds an overflow and the step is skipped; or it finds none,
/// and a norm above its limit, so that gradients are clipped; or neither.
enum class branch : uint8_t { not_skipped, clipped, skipped };

/// The branches in which an instruction acts. `not_skipped`: whether clipped or not; `undone`: clipped or skipped, so
/// that what was updated before the vote is undone.
enum class guard : uint8_t { always, not_skipped, clipped, skipped, undone };

/// Whether an instruction with this guard acts in a step whose vote took that branch.
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

/// A use of a unit: forward, backward, or one of the two parts of backward.
enum class use : uint8_t {
  forward,
  backward,
  input,    ///< the gradient of the input
  weights,  ///< those of the parameters, which needs none of these
};

/// The way that data take: backward for a part of it, too.
constexpr use way_of(use u) { return u == use::forward ? use::forward : use::backward; }
constexpr bool reads_parameters(use u) { return u != use::weights; }
constexpr bool writes_gradients(use u) { return u == use::backward || u == use::weights; }

inline constexpr uint32_t none = 0xFFFFFFFF;

/// One use of a unit, or of some of its segments where a forward and a backward take turns.
struct unit_use {
  uint32_t unit = 0, micro = 0;
  plan::use kind = use::forward;
  uint32_t first = 0, end = none;  ///< segments [first, end), as far as there are any
  [[nodiscard]] bool has(uint32_t segment) const { return segment >= first && segment < end; }
};

/// The computation of a rank in a step, in order (plan/schedule/).
using schedule = std::vector<unit_use>;

/// What an instruction does, without its place in the order. `buffer` and `staged` are slots of its plan.
struct operation {
  plan::kind kind = kind::load;
  plan::guard guard = guard::always;
  plan::use use = use::forward;
  plan::swapped what = plan::swapped::nothing;
  uint32_t subject = none, segment = none, micro = 0;
  uint32_t buffer = none;  ///< gather, survey, compress, forward, recompute, backward: the slot of the parameters
  /// compress, forward, recompute, backward: the slot of what stands for the unit's compressed parameters.
  uint32_t compressed = none;
  /// Slots that computation reads and fills. The first and the last compute instruction of a stage's micro-batch: what
  /// a transfer filled, and what another one will empty; where backward is split, its first weight part reads the first
  /// slot again. Around an exchange: what is exchanged in place, which its reader copies; the ranges that a survey
  /// finds and `compress` reads.
  uint32_t input = none, output = none;
  uint32_t staged =
      none;  ///< the window slot that a swap fills or empties, or that another kind uses instead of resident memory
  uint32_t piece = 0;  ///< multiply, exchange: of the rows of a segment's output (job_layout::pieces_of)
  bool near = false;   ///< gather: from the second copy; release: makes this rank's part of it first
  bool again = false;  ///< exchange: in a recompute; swap of states: around a redo
  uint64_t bytes = 0;  ///< moved (fabric, shard) or touched
  double flops = 0;
};

struct instruction : operation {  ///< the unit of a plan
  uint32_t id = 0;                ///< index in rank_plan::instructions
  plan::lane lane = lane::control;
  uint32_t communicator = none;  ///< of fabric instructions: in job_layout::communicators
  uint32_t sequence = none;      ///< position among this step's collectives of that communicator
  std::vector<uint32_t> after;   ///< instructions of this rank that must have ended before this one starts, ascending
};

/// Between the stages of a pipeline.
constexpr bool is_transfer(kind k) { return k == kind::send || k == kind::receive; }

std::string_view name_of(kind k);     ///< as tools and errors print it
std::string_view name_of(lane l);     ///< likewise
std::string_view name_of(swapped x);  ///< likewise
lane lane_of(kind k);                 ///< the lane that runs it

}  // namespace troupe::plan
