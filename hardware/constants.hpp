// Owns the constants of the cost model: what each is called, its unit, its range and the quantities that it prices. A
// stack's file (hardware/*.yaml) gives them values. The formulas are in step_cost, memory_cost, kernel_cost and
// collective_cost.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "hardware/card.hpp"

namespace troupe::hardware {

/// A quantity that is predicted.
enum class quantity : uint8_t { step, memory, product, attention, all_reduce };
inline constexpr quantity all_quantities[] = {quantity::step, quantity::memory, quantity::product, quantity::attention,
                                              quantity::all_reduce};

/// Returns the quantity's name in files and output: "step", "all_reduce".
std::string_view name_of(quantity q);
/// Returns the unit in which the quantity is predicted: "s" or "B".
std::string_view unit_of(quantity q);

/// Values of the constants. An absent one is refused by whatever needs it; the others have the value that changes
/// nothing. Units and meanings are in constant_rows().
struct constants {
  // All-reduces in one node, as nccl-tests measures them
  double ring_latency_s = absent, ring_latency_per_rank_s = absent, ring_bytes_per_s = absent;
  double ring_few_ranks_penalty = absent, ring_ramp_bytes = absent;
  // Collectives within a step
  double ring_in_step_factor = 0;  ///< 0: collectives are priced by links instead of by the ring
  double near_latency_s = absent, near_latency_per_rank_s = absent, far_latency_s = absent, hop_latency_s = absent;
  double nvlink_share = absent, network_share = absent;
  double send_bytes_per_s = absent, send_exposed_share = 0;
  double tensor_hidden_share = 0, data_exposed_share = 1, overlap_contention_share = absent;
  // Computation within a step
  double product_share = absent, product_lost_waves = absent, product_fill_k_elements = absent;
  double attention_share = absent, softmax_bytes_per_score = absent, odd_heads_factor = 1;
  double elementwise_bytes_per_hidden = absent, elementwise_bytes_per_ffn = absent, elementwise_backward_factor = 1;
  double loss_bytes_per_logit = absent, unsplit_vocabulary_factor = 1;
  double host_layer_s = absent, host_collective_s_per_rank = 0, host_sharpness = absent;
  double straggler_share = 0, slow_pcie_factor = 1;
  double update_bytes_per_parameter = absent, update_fixed_s = absent;
  // Memory
  double optimizer_bytes_per_parameter = absent, whole_optimizer_extra_bytes = 0, work_bytes_per_hidden = 0;
  double saved_bytes_per_hidden = absent, saved_bytes_per_ffn = absent, logit_bytes = absent, context_bytes = absent;
  // Single kernels
  double nn_factor = absent, nt_fp32_factor = absent, nt_bf16_factor = 1, memory_share = absent, launch_s = absent;
  double burst_factor = 1, burst_flops = 0;
  double attention_forward_share = absent, attention_backward_share = absent;
  double wide_head_forward_factor = absent, wide_head_backward_factor = absent;
  double attention_forward_s_per_key = absent, attention_backward_s_per_key = absent;
  double attention_forward_sharpness = absent, attention_backward_sharpness = absent;
};

/// One constant as files name it.
struct constant_row {
  std::string_view name, unit;
  double constants::*field;
  double least, most;     ///< range of the value; a least of 0 excludes 0 if the formulas divide by the constant
  bool divides;           ///< the formulas divide by it, so that 0 is refused
  uint8_t prices;         ///< quantities, one bit each
  uint8_t always_needed;  ///< quantities that cannot be priced without it

  [[nodiscard]] bool is_for(quantity q) const { return (prices >> static_cast<unsigned>(q) & 1U) != 0; }
  [[nodiscard]] bool is_needed_for(quantity q) const { return (always_needed >> static_cast<unsigned>(q) & 1U) != 0; }
};

std::span<const constant_row> constant_rows();
/// Returns the constant of this name; null if there is none.
const constant_row* find_constant(std::string_view name);

}  // namespace troupe::hardware
