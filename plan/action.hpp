// Owns the vocabulary of pipeline schedules, which is PyTorch's: actions, the table of the actions of all ranks, and
// the placement of stages on ranks. Leaves orders to named.hpp and search.hpp, proofs to proof.hpp, time to timing.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/instruction.hpp"

namespace troupe::plan {

/// The effect of an action on its stage. A stage is a chunk of the model, counted over all ranks in the model's order.
/// Source of the notation: PyTorch 2.11, torch/distributed/pipelining/schedules.py.
enum class action_type : uint8_t {
  forward,          ///< `2F0`: computes the forward of stage 2 for micro-batch 0
  backward,         ///< `2B0`: computes the gradients of the input and of the weights together
  backward_input,   ///< `2I0`: computes the gradient of the input
  backward_weight,  ///< `2W0`: computes the gradients of the weights, some time after `2I0`
  send_forward,     ///< `2SEND_F0`: sends the output of stage 2 to stage 3
  recv_forward,     ///< `2RECV_F0`: receives the output of stage 1
  send_backward,    ///< `2SEND_B0`: sends the gradient of the input of stage 2 to stage 1
  recv_backward,    ///< `2RECV_B0`: receives the gradient of the input of stage 3
  unshard,          ///< `2UNSHARD`: gathers the full parameters
  reshard,          ///< `2RESHARD`: releases the gathered parameters
  reduce_gradient,  ///< `2REDUCE_GRAD`: reduces the gradients over the data axis, once all gradients of the weights are
                    ///< computed
  overlap,          ///< `(0F5;3B2)OVERLAP_F_B`: computes a forward and a full backward that overlap
};
inline constexpr uint32_t num_action_types = 12;

/// One action of a rank. `micro` is `none` if the type has no micro-batch. An overlap stores its forward in `stage`
/// and `micro`, and its backward in `backward_stage` and `backward_micro`.
struct action {
  action_type type = action_type::forward;
  uint32_t stage = none, micro = none;
  uint32_t backward_stage = none, backward_micro = none;
  bool operator==(const action&) const = default;
};

std::string_view name_of(action_type t);  ///< Returns the notation of a type, such as "F", "SEND_B", "OVERLAP_F_B".
std::string name_of(const action& a);     ///< Returns the notation of an action, such as "2F0", "(0F5;3B2)OVERLAP_F_B".

/// True if actions of this type compute: a forward, a whole backward or a part of one, or an overlap of both.
constexpr bool computes(action_type t) { return t <= action_type::backward_weight || t == action_type::overlap; }
/// True if actions of this type send data to a neighbouring stage, or receive data from one.
constexpr bool moves(action_type t) { return t >= action_type::send_forward && t <= action_type::recv_backward; }
/// True if an action of this type belongs to exactly one micro-batch: an overlap has two, and UNSHARD, RESHARD and
/// REDUCE_GRAD have none.
constexpr bool has_micro(action_type t) { return t <= action_type::recv_backward; }

/// Calls `visit` with the action; for an action of type overlap, first with its forward, then with its backward.
void for_each_part(const action& a, auto visit) {
  if (a.type != action_type::overlap) return visit(a);
  visit(action{action_type::forward, a.stage, a.micro});
  visit(action{action_type::backward, a.backward_stage, a.backward_micro});
}

/// Placement of stages on the p ranks of a pipeline. round_robin: rank r has stages r, p + r, 2p + r, ... folded: rank
/// r has stages r, 2p - 1 - r, 2p + r, ...
enum class stage_placement : uint8_t { round_robin, folded };

/// Returns, for each stage, its rank; each of `ranks` ranks has `chunks` stages.
std::vector<uint32_t> place_stages(stage_placement placement, uint32_t ranks, uint32_t chunks);

/// Returns the stage that is chunk `chunk` of rank `rank`, of `ranks` ranks.
uint32_t stage_of(stage_placement placement, uint32_t ranks, uint32_t rank, uint32_t chunk);

/// The actions of every rank of a pipeline in a step. proof.hpp checks that a table can run.
struct pipeline_table {
  uint32_t micro_batches = 0;
  std::vector<uint32_t> rank_of_stage;      ///< [stage]: rank that computes the stage
  std::vector<std::vector<action>> orders;  ///< [rank]: actions of the rank in order
  [[nodiscard]] uint32_t ranks() const { return static_cast<uint32_t>(orders.size()); }
  [[nodiscard]] uint32_t stages() const { return static_cast<uint32_t>(rank_of_stage.size()); }
  bool operator==(const pipeline_table&) const = default;
};

/// True if some action is a backward or a part of one. False: all computation is forward.
bool trains(const pipeline_table& t);

/// Limit of stages times micro-batches of a pipeline table. With this limit, the memory of the code that keeps some
/// bytes for each micro-batch of each stage of a table remains below 1 GiB.
inline constexpr uint64_t max_stage_micro_batches = 1U << 22U;

}  // namespace troupe::plan
