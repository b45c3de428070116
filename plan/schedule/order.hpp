// The rules of the named schedules: what one rank does, each in a file of its own. Owns what they share. Each works for
// any number of micro-batches: a rule that wants more runs with as many, and those that are not there are left out of
// all ranks. Micro-batches wait for nothing of each other but for their turn, so what is left needs nothing new.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/action.hpp"

namespace troupe::plan {

/// The size of a pipeline.
struct pipeline_shape {
  uint32_t ranks = 1, chunks = 1;  ///< stages: ranks times chunks
  uint32_t micro_batches = 1;
  uint32_t group = 0;  ///< interleaved: micro-batches that a chunk runs before the next has its turn, at least `ranks`
                       ///< (Megatron's microbatch_group_size_per_vp_stage); 0: as even as PyTorch has them
};

/// Writes the order of a rank by stage and micro-batch, without micro-batches that are not there.
class order_writer {
 public:
  explicit order_writer(uint32_t micro_batches) : micro_batches_(micro_batches) {}
  void add(action_type type, uint32_t stage, uint32_t micro) {
    if (micro < micro_batches_) order_.push_back({type, stage, micro});
  }
  void add_overlap(uint32_t stage, uint32_t micro, uint32_t backward_stage, uint32_t backward_micro) {
    if (micro < micro_batches_ && backward_micro < micro_batches_) {
      order_.push_back({action_type::overlap, stage, micro, backward_stage, backward_micro});
      return;
    }
    add(action_type::forward, stage, micro);
    add(action_type::backward, backward_stage, backward_micro);
  }
  std::vector<action> done() { return std::move(order_); }

 private:
  uint32_t micro_batches_;
  std::vector<action> order_;
};

/// How a rank of an interleaved schedule warms up, and whether its backward is split.
struct interleaving {
  uint32_t forwards_per_hop = 1;  ///< more in the warm-up for each rank between this one and the last
  bool split = false;
  uint32_t deferred_per_rank = 0;  ///< split: weight parts that rank r keeps waiting, times r
};

/// One forward, one backward, chunk after chunk in groups of micro-batches (Narayanan et al. 2021). With split
/// backward: ZB1P, as PyTorch's InterleavedZeroBubble has it, and for one chunk ZB-H1 and ZB-H2 (Qi et al. 2023).
std::vector<action> interleaved_order(const pipeline_shape& s, uint32_t rank, const interleaving& how);

/// Every forward, chunk after chunk, then every backward, last chunk first (Huang et al. 2018; Lamy-Poirier 2022). The
/// backward keeps the order of micro-batches, which PyTorch's LoopedBFS reverses.
std::vector<action> breadth_first_order(const pipeline_shape& s, uint32_t rank);

/// Two chunks, folded; no idle where all parts take the same time (Qi et al. 2023, section 6; PyTorch's ZBVZeroBubble).
std::vector<action> zb_v_order(const pipeline_shape& s, uint32_t rank);

/// Two chunks, folded, with pairs that may overlap (DeepSeek's DualPipeV; PyTorch's DualPipeV).
std::vector<action> dual_pipe_v_order(const pipeline_shape& s, uint32_t rank);

/// Forward in the order of interleaved_order, and nothing else: what an evaluation does.
std::vector<action> forward_only_order(const pipeline_shape& s, uint32_t rank);

}  // namespace troupe::plan
