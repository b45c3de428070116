// Prices collectives and transfers between ranks: latency plus bytes over a rate. Owns the formulas; which ranks share
// a node is the caller's.
#pragma once

#include "hardware/constants.hpp"
#include "hardware/workload.hpp"

namespace troupe::hardware {

/// Ranks of one collective. `inside`: how many of them share a node.
struct rank_group {
  double ranks = 1, inside = 1;
};

/// Returns the seconds of an all-reduce of `bytes` among `ranks` of one node, as nccl-tests measures it; 0 for one
/// rank.
double ring_all_reduce_s(double bytes, double ranks, const constants& c);
/// Returns the seconds of an all-reduce in two levels: reduce-scatter and all-gather over NVLink within nodes, and an
/// all-reduce of each rank's part over the network between nodes.
double two_level_all_reduce_s(double bytes, rank_group group, const card& on, const constants& c);
/// Returns the seconds of an all-gather or reduce-scatter of `bytes` in all, around a ring: the slower of NVLink and
/// the node's whole network carries the bytes, and each hop costs latency.
double ring_gather_s(double bytes, rank_group group, const card& on, const constants& c);

/// Returns the tensor ranks of a step, which are the closest neighbours.
rank_group tensor_group(const workload& w, const card& on);
/// Returns the data-parallel ranks of a step. Tensor and context ranks are closer than they, stages of a pipeline are
/// farther.
rank_group data_group(const workload& w, const card& on);

/// Returns the seconds of one all-reduce of a layer's output over tensor ranks, the part that products do not hide. A
/// reduce-scatter with an all-gather (sequence parallelism) moves the same bytes.
double tensor_exchange_s(const workload& w, const card& on, const constants& c);
/// Returns the seconds of an all-reduce of `bytes` of gradients over data-parallel ranks.
double gradient_all_reduce_s(double bytes, const workload& w, const card& on, const constants& c);
/// Returns the seconds by which the ring of keys and values between context ranks is longer than the attention that
/// hides it.
double exposed_context_s(double attention_s, const workload& w, const card& on, const constants& c);
/// Returns the seconds of moving one micro-batch's activation to the next stage.
double send_s(const workload& w, const constants& c);

}  // namespace troupe::hardware
