// What the ranks of a pipeline do, in which order: actions, and the table of all ranks. Owns the vocabulary, which is
// PyTorch's, and where stages lie; leaves orders to named.hpp and search.hpp, proofs to proof.hpp, time to timing.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/instruction.hpp"

namespace troupe::plan {

/// What an action does with its stage. A stage is a chunk of the model, counted over all ranks in the model's order.
/// Source of the notation: PyTorch 2.11, torch/distributed/pipelining/schedules.py.
enum class action_type : uint8_t {
  forward,          ///< `2F0`
  backward,         ///< `2B0`: gradients of the input and of the weights at once
  backward_input,   ///< `2I0`: of the input
  backward_weight,  ///< `2W0`: of the weights, some time after the input's
  send_forward,     ///< `2SEND_F0`: the output to stage 3
  recv_forward,     ///< `2RECV_F0`: the output of stage 1
  send_backward,    ///< `2SEND_B0`: the input's gradient to stage 1
  recv_backward,    ///< `2RECV_B0`: that of stage 3
  unshard,          ///< `2UNSHARD`: full parameters, gathered
  reshard,          ///< `2RESHARD`: and given back
  reduce_gradient,  ///< `2REDUCE_GRAD`: over the data axis, once all gradients of the weights are there
  overlap,          ///< `(0F5;3B2)OVERLAP_F_B`: a forward and a full backward side by side
};
inline constexpr uint32_t num_action_types = 12;

/// One action. `micro` is `none` where the type has no micro-batch; the last two are an overlap's backward.
struct action {
  action_type type = action_type::forward;
  uint32_t stage = none, micro = none;
  uint32_t backward_stage = none, backward_micro = none;
  bool operator==(const action&) const = default;
};

std::string_view name_of(action_type t);  ///< "F", "SEND_B", "OVERLAP_F_B"
std::string name_of(const action& a);     ///< "2F0", "(0F5;3B2)OVERLAP_F_B"

/// A part of a stage's work on a micro-batch.
constexpr bool computes(action_type t) { return t <= action_type::backward_weight || t == action_type::overlap; }
/// Between neighbouring stages.
constexpr bool moves(action_type t) { return t >= action_type::send_forward && t <= action_type::recv_backward; }
constexpr bool has_micro(action_type t) { return t <= action_type::recv_backward; }  ///< of one micro-batch

/// Calls `visit` with the action, or with the two of an overlap, forward first.
void for_each_part(const action& a, auto visit) {
  if (a.type != action_type::overlap) return visit(a);
  visit(action{action_type::forward, a.stage, a.micro});
  visit(action{action_type::backward, a.backward_stage, a.backward_micro});
}

/// Where the stages of a rank lie: rank r of p has stages r, p + r, 2p + r, ... or, folded, r, 2p - 1 - r, 2p + r, ...
enum class stage_placement : uint8_t { round_robin, folded };

/// [stage] its rank, for `chunks` stages on each of `ranks`.
std::vector<uint32_t> place_stages(stage_placement placement, uint32_t ranks, uint32_t chunks);

/// The stage that is chunk `chunk` of rank `rank`, of `ranks`.
uint32_t stage_of(stage_placement placement, uint32_t ranks, uint32_t rank, uint32_t chunk);

/// What every rank of a pipeline does in a step. proof.hpp says when it holds together.
struct pipeline_table {
  uint32_t micro_batches = 0;
  std::vector<uint32_t> rank_of_stage;      ///< [stage]
  std::vector<std::vector<action>> orders;  ///< [rank] actions in order
  [[nodiscard]] uint32_t ranks() const { return static_cast<uint32_t>(orders.size()); }
  [[nodiscard]] uint32_t stages() const { return static_cast<uint32_t>(rank_of_stage.size()); }
  bool operator==(const pipeline_table&) const = default;
};

/// Whether some action is a backward, or a part of one; else all is forward.
bool trains(const pipeline_table& t);

/// Stages times micro-batches that a table may have: what is kept per micro-batch of a stage stays below 1 GiB.
inline constexpr uint64_t max_stage_micro_batches = 1U << 22U;

}  // namespace troupe::plan
