#include "hardware/collective_cost.hpp"

#include <algorithm>
#include <cmath>

#include "hardware/kernel_cost.hpp"

namespace troupe::hardware {

double ring_all_reduce_s(double bytes, double ranks, const constants& c) {
  if (ranks <= 1) return 0;
  const double wire_bytes = std::max(bytes * 2 * (ranks - 1) / ranks, 1.0);
  const double latency_s = c.ring_latency_s + c.ring_latency_per_rank_s * (ranks - 1);
  const double transfer_s = wire_bytes / c.ring_bytes_per_s * (1 + c.ring_few_ranks_penalty / ranks) *
                            (1 + std::sqrt(c.ring_ramp_bytes / wire_bytes));
  return latency_s + transfer_s;
}

double two_level_all_reduce_s(double bytes, rank_group group, const card& on, const constants& c) {
  const double ranks = group.ranks;
  if (ranks <= 1) return 0;
  const double inside = std::max(std::min(group.inside, ranks), 1.0);
  const double nodes = std::max(ranks / inside, 1.0);
  double near_s = 0, far_s = 0;
  if (inside > 1)
    near_s = c.near_latency_s + c.near_latency_per_rank_s * (inside - 1) +
             bytes * 2 * (inside - 1) / inside / (on.nvlink_bytes_per_s * c.nvlink_share);
  if (nodes > 1)
    far_s = c.far_latency_s * std::log2(std::max(nodes, 2.0)) +
            bytes / inside * 2 * (nodes - 1) / nodes / (on.network_bytes_per_s * c.network_share);
  return near_s + far_s;
}

double ring_gather_s(double bytes, rank_group group, const card& on, const constants& c) {
  const double ranks = group.ranks;
  if (ranks <= 1) return 0;
  const double inside = std::max(std::min(group.inside, ranks), 1.0);
  double bytes_per_s = on.nvlink_bytes_per_s * c.nvlink_share;
  if (ranks > inside) bytes_per_s = std::min(bytes_per_s, on.network_bytes_per_s * inside * c.network_share);
  return bytes * (ranks - 1) / ranks / bytes_per_s + c.hop_latency_s * (ranks - 1);
}

rank_group tensor_group(const workload& w, const card& on) { return {w.tensor, std::min(w.tensor, on.node_gpus)}; }

rank_group data_group(const workload& w, const card& on) {
  return {w.data, std::min(std::max(on.node_gpus / (w.tensor * w.context), 1.0), w.data)};
}

double tensor_exchange_s(const workload& w, const card& on, const constants& c) {
  const double bytes = 2 * tokens_of(w) * w.hidden;
  const double whole_s = c.ring_in_step_factor > 0 ? ring_all_reduce_s(bytes, w.tensor, c) * c.ring_in_step_factor
                                                   : two_level_all_reduce_s(bytes, tensor_group(w, on), on, c);
  return whole_s * (1 - c.tensor_hidden_share);
}

double gradient_all_reduce_s(double bytes, const workload& w, const card& on, const constants& c) {
  return c.ring_in_step_factor > 0 ? ring_all_reduce_s(bytes, w.data, c)
                                   : two_level_all_reduce_s(bytes, data_group(w, on), on, c);
}

double exposed_context_s(double attention_s, const workload& w, const card& on, const constants& c) {
  if (w.context <= 1) return 0;
  const bool is_near = w.tensor * w.context <= on.node_gpus;
  const double bytes_per_s =
      is_near ? on.nvlink_bytes_per_s * c.nvlink_share : on.network_bytes_per_s * c.network_share;
  const double bytes = (w.context - 1) * 2 * 2 * tokens_of(w) * w.hidden * w.kv_heads / w.heads / w.tensor;
  return std::max(0.0, bytes / bytes_per_s - attention_s);
}

double send_s(const workload& w, const constants& c) { return 2 * tokens_of(w) * w.hidden / c.send_bytes_per_s; }

}  // namespace troupe::hardware
