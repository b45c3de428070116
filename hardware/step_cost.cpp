#include "hardware/step_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "hardware/collective_cost.hpp"
#include "hardware/kernel_cost.hpp"

namespace troupe::hardware {
namespace {

bool is_sharded(const workload& w) { return w.zero >= 2; }

/// Returns the host's time to launch one layer's forward, repetition and backward.
double host_of_layer_s(const workload& w, const constants& c) {
  const double again = w.recompute ? 1.0 : 0.0;
  const double waits_s = w.tensor > 1 ? c.host_collective_s_per_rank * (4 + 2 * again) * (w.tensor - 1) : 0.0;
  return c.host_layer_s * (3 + again) / 4 + waits_s;
}

/// Returns the seconds of computing with an exchange beneath it: the longer, and a share of the shorter, because both
/// use the same SMs, memory and links.
double overlapped_s(double work_s, double exchange_s, const constants& c) {
  return std::max(work_s, exchange_s) + c.overlap_contention_share * std::min(work_s, exchange_s);
}

double gathered_s(double elements, double element_bytes, const workload& w, const card& on, const constants& c) {
  return ring_gather_s(elements / w.tensor * element_bytes, data_group(w, on), on, c);
}

/// The stage that takes longest, and all stages together, for one micro-batch.
struct stages {
  double layers = 0;  ///< layers of the slowest stage
  bool has_head = false;
  double slowest_s = 0, total_s = 0;
};

stages stages_of(const workload& w, double layer_s, double head_seconds, double send_seconds) {
  stages out;
  out.total_s = w.layers * layer_s + head_seconds + 2 * (w.pipeline - 1) * send_seconds;
  if (w.pipeline == 1) {
    out.layers = w.layers;
    out.has_head = true;
  } else {
    const double inner = layers_of_stage(w), outer = inner - (w.embedding_is_layer ? 1.0 : 0.0);
    out.has_head = w.pipeline == 2 || outer * layer_s + head_seconds >= inner * layer_s;
    out.layers = out.has_head ? outer : inner;
  }
  out.slowest_s = out.layers * layer_s + (out.has_head ? head_seconds : 0.0);
  return out;
}

/// Returns the parameters on one GPU of the fullest stage.
double fullest_parameters(const workload& w) {
  const double tables = w.untied && w.pipeline == 1 ? 2.0 : 1.0;
  return (layer_parameters(w) * w.layers / w.pipeline + tables * table_parameters(w)) / w.tensor;
}

core::result<void> present(std::span<double constants::*const> wanted, const constants& c, std::string_view why) {
  for (const auto field : wanted)
    if (std::isnan(c.*field)) {
      const auto rows = constant_rows();
      const auto row = std::ranges::find(rows, field, &constant_row::field);
      return core::refused(fmt::format("the constant {} is absent, and {} needs it", row->name, why));
    }
  return {};
}

core::result<void> present(double card::*field, const card& on, std::string_view why) {
  if (!std::isnan(on.*field)) return {};
  const auto rows = card_rows();
  const auto row = std::ranges::find(rows, field, &card_row::field);
  return core::refused(fmt::format("the card {} has no {}, and {} needs it", on.name, row->name, why));
}

}  // namespace

double layer_parameters(const workload& w) {
  const double h = w.hidden, kv = h * w.kv_heads / w.heads;
  return 2 * h * h + 2 * h * kv + (w.gated ? 3.0 : 2.0) * h * w.ffn + (w.bias ? 13 * h : 0.0);
}

double table_parameters(const workload& w) {
  return w.vocabulary * w.hidden + (w.learned_positions ? w.sequence * w.hidden : 0.0);
}

double layers_of_stage(const workload& w) { return (w.layers + (w.embedding_is_layer ? 2.0 : 0.0)) / w.pipeline; }

layer_cost cost_of_layer(const workload& w, const card& on, const constants& c) {
  const auto products = layer_products_s(w, on, c);
  const auto attention = layer_attention_s(w, on, c);
  const auto elementwise = layer_elementwise_s(w, on, c);
  const double exchange_s = tensor_exchange_s(w, on, c);
  const double again = w.recompute ? 1.0 : 0.0;                       // whole forwards that are repeated
  const double core_again = w.selective && !w.recompute ? 1.0 : 0.0;  // repeated cores of attention
  const double spared_s = again * (w.early_stop ? products.last_s : 0.0);
  const double forward_context_s = exposed_context_s(attention.forward_s, w, on, c);
  const double backward_context_s = exposed_context_s(attention.backward_s, w, on, c);

  layer_cost out;
  out.products_s = products.all.forward_s * (1 + again) - spared_s + products.all.backward_s;
  out.attention_s = attention.forward_s * (1 + again + core_again) + attention.backward_s;
  out.elementwise_s = elementwise.forward_s * (1 + again) + elementwise.backward_s;
  out.tensor_s = exchange_s * (4 + 2 * again);
  out.context_s = forward_context_s * (1 + again) + backward_context_s;
  out.device_s = out.products_s + out.attention_s + out.elementwise_s + out.tensor_s + out.context_s;
  out.host_s = host_of_layer_s(w, c);

  const double forward_s =
      products.all.forward_s + attention.forward_s + elementwise.forward_s + 2 * exchange_s + forward_context_s;
  const double pace = smooth_max_s(out.device_s, out.host_s, c.host_sharpness) / out.device_s *
                      (w.slow_pcie ? c.slow_pcie_factor : 1.0);
  out.forward_s = forward_s * pace;
  out.backward_s = (out.device_s - forward_s) * pace;
  out.whole_s = out.forward_s + out.backward_s;
  if (is_sharded(w)) {
    out.gather_s = gathered_s(layer_parameters(w), w.gather_bytes, w, on, c);
    out.scatter_s = gathered_s(layer_parameters(w), w.reduce_bytes, w, on, c);
    out.whole_s = overlapped_s(out.forward_s, out.gather_s, c) +
                  overlapped_s(out.backward_s, (w.zero == 3 ? out.gather_s : 0.0) + out.scatter_s, c);
  }
  return out;
}

step_cost cost_of_step(const workload& w, const card& on, const constants& c) {
  step_cost out;
  out.layer = cost_of_layer(w, on, c);
  const auto& layer = out.layer;
  const double head_compute_s = head_s(w, on, c);
  const double head_gathers_s = is_sharded(w) ? gathered_s(table_parameters(w), w.gather_bytes, w, on, c) +
                                                    gathered_s(table_parameters(w), w.reduce_bytes, w, on, c)
                                              : 0.0;
  out.head_s = head_compute_s + head_gathers_s;
  out.send_s = send_s(w, c);
  const auto path = stages_of(w, layer.whole_s, out.head_s, out.send_s);
  const double m = w.micro_batches;
  const double waits_s = w.pipeline > 1 ? m * 2 * w.chunks * out.send_s * c.send_exposed_share : 0.0;
  const double mine = fullest_parameters(w);
  if (w.data > 1 && !is_sharded(w))
    out.reduce_s = gradient_all_reduce_s(mine * w.grad_bytes, w, on, c) * c.data_exposed_share;

  const double heads = path.has_head ? 1.0 : 0.0;
  const double computed_s = layer.products_s + layer.attention_s + layer.elementwise_s;
  const double exchanged_s = layer.tensor_s + layer.context_s + (layer.whole_s - layer.forward_s - layer.backward_s);
  out.bubble_s = (path.total_s - path.slowest_s) / w.chunks;
  out.flow_s = m * path.slowest_s + out.bubble_s + waits_s;
  out.compute_s = m * (path.layers * computed_s + heads * head_compute_s);
  out.exposed_communication_s = m * (path.layers * exchanged_s + heads * head_gathers_s) + waits_s + out.reduce_s;
  out.host_s = m * path.layers * (layer.forward_s + layer.backward_s - layer.device_s);
  out.update_s =
      (w.zero > 0 ? mine / w.data : mine) * c.update_bytes_per_parameter / on.memory_bytes_per_s + c.update_fixed_s;
  const double ranks = w.tensor * w.pipeline * w.data * w.context;
  out.straggler_s = (out.flow_s + out.reduce_s + out.update_s) * c.straggler_share * std::sqrt(2 * std::log(ranks));
  out.step_s = out.compute_s + out.exposed_communication_s + out.host_s + out.bubble_s + out.update_s + out.straggler_s;
  return out;
}

core::result<void> needs_of_step(const workload& w, const card& on, const constants& c) {
  using k = constants;
  if (!w.fused_attention) {
    constexpr double k::*scores[] = {&k::softmax_bytes_per_score};
    TROUPE_TRY(present(scores, c, "attention that is not fused"));
  }
  const auto data = data_group(w, on);
  const bool is_ring = c.ring_in_step_factor > 0;
  const bool reduces = w.data > 1 && !is_sharded(w), gathers = w.data > 1 && is_sharded(w);
  const bool rings = w.context > 1;
  if (is_ring && (w.tensor > 1 || reduces)) {
    constexpr double k::*ring[] = {&k::ring_latency_s, &k::ring_latency_per_rank_s, &k::ring_bytes_per_s,
                                   &k::ring_few_ranks_penalty, &k::ring_ramp_bytes};
    TROUPE_TRY(present(ring, c, "an all-reduce by the ring"));
    if (w.tensor * w.data > on.node_gpus)
      return core::refused(
          fmt::format("{:g} tensor ranks by {:g} data-parallel ranks exceed one node of {:g} GPUs, "
                      "and the stack's ring (ring_in_step_factor) is one node's",
                      w.tensor, w.data, on.node_gpus));
  }
  const bool links = !is_ring && (w.tensor > 1 || reduces);
  if (links) {
    constexpr double k::*latencies[] = {&k::near_latency_s, &k::near_latency_per_rank_s, &k::far_latency_s};
    TROUPE_TRY(present(latencies, c, "an all-reduce"));
  }
  const auto tensor = tensor_group(w, on);
  const bool near =
      (links && (tensor.inside > 1 || data.inside > 1)) || gathers || (rings && w.tensor * w.context <= on.node_gpus);
  const bool far = (links && (tensor.ranks > tensor.inside || (w.data > 1 && data.ranks > data.inside))) ||
                   (gathers && data.ranks > data.inside) || (rings && w.tensor * w.context > on.node_gpus);
  if (near) {
    constexpr double k::*share[] = {&k::nvlink_share};
    TROUPE_TRY(present(share, c, "a collective within a node"));
    TROUPE_TRY(present(&card::nvlink_bytes_per_s, on, "a collective within a node"));
  }
  if (far) {
    constexpr double k::*share[] = {&k::network_share};
    TROUPE_TRY(present(share, c, "a collective between nodes"));
    TROUPE_TRY(present(&card::network_bytes_per_s, on, "a collective between nodes"));
  }
  if (is_sharded(w)) {
    constexpr double k::*sharded[] = {&k::hop_latency_s, &k::overlap_contention_share};
    TROUPE_TRY(present(sharded, c, fmt::format("ZeRO {}", w.zero)));
  }
  return {};
}

}  // namespace troupe::hardware
