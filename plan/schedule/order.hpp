// Declares the rules of the named schedules and owns their common parts. A rule returns the actions of one rank. Every
// rule works for any number of micro-batches: a rule that needs more computes its order with as many as it needs, and
// the missing ones are left out on all ranks. The remaining actions stay valid, because micro-batches depend on each
// other only by their order.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/action.hpp"

namespace troupe::plan {

/// Numbers of ranks, of chunks per rank and of micro-batches of a pipeline.
struct pipeline_shape {
  uint32_t ranks = 1, chunks = 1;  ///< ranks of the pipeline, and stages of each rank
  uint32_t micro_batches = 1;
  /// interleaved: micro-batches that a chunk runs before the next chunk runs, at least `ranks` (Megatron's
  /// microbatch_group_size_per_vp_stage); 0: groups as even as PyTorch makes them
  uint32_t group = 0;
};

/// Collects the order of a rank by stage and micro-batch, and leaves out micro-batches that do not exist.
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
  uint32_t forwards_per_hop = 1;  ///< number of warm-up forwards that a rank has more than the next rank of the
                                  ///< pipeline
  bool split = false;
  uint32_t deferred_per_rank = 0;  ///< split backward: rank r keeps this number times r of weight parts waiting
};

/// Returns the order of one forward, one backward, chunk after chunk in groups of micro-batches (Narayanan et al.
/// 2021). With split backward this is ZB1P as in PyTorch's InterleavedZeroBubble, and for one chunk ZB-H1 and ZB-H2 (Qi
/// et al. 2023).
std::vector<action> interleaved_order(const pipeline_shape& s, uint32_t rank, const interleaving& how);

/// Returns the order of every forward, chunk after chunk, then every backward, last chunk first (Huang et al. 2018;
/// Lamy-Poirier 2022). The backward keeps the order of micro-batches, which PyTorch's LoopedBFS reverses.
std::vector<action> breadth_first_order(const pipeline_shape& s, uint32_t rank);

/// Returns the order for two folded chunks without idle time if all parts take equally long (Qi et al. 2023, section 6;
/// PyTorch's ZBVZeroBubble).
std::vector<action> zb_v_order(const pipeline_shape& s, uint32_t rank);

/// Returns the order for two folded chunks, with pairs of a forward and a backward that may overlap (DeepSeek's
/// DualPipeV; PyTorch's DualPipeV).
std::vector<action> dual_pipe_v_order(const pipeline_shape& s, uint32_t rank);

/// Returns the forwards in the order of interleaved_order, and no other action: the order of an evaluation.
std::vector<action> forward_only_order(const pipeline_shape& s, uint32_t rank);

}  // namespace troupe::plan
