#include "hardware/constants.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace troupe::hardware {
namespace {

using own = constants;

constexpr double endless = std::numeric_limits<double>::max();

/// Returns the bit of a quantity in constant_row::prices and always_needed.
constexpr uint8_t bit_of(quantity q) { return static_cast<uint8_t>(1U << static_cast<unsigned>(q)); }
constexpr uint8_t never = 0, in_step = bit_of(quantity::step), in_memory = bit_of(quantity::memory),
                  in_product = bit_of(quantity::product), in_attention = bit_of(quantity::attention),
                  in_ring = bit_of(quantity::all_reduce);
constexpr uint8_t in_step_and_ring = in_step | in_ring, in_step_and_product = in_step | in_product;

constexpr constant_row all_constants[] = {
    {"ring_latency_s", "s", &own::ring_latency_s, 0, endless, false, in_step_and_ring, in_ring},
    {"ring_latency_per_rank_s", "s/rank", &own::ring_latency_per_rank_s, 0, endless, false, in_step_and_ring, in_ring},
    {"ring_bytes_per_s", "B/s", &own::ring_bytes_per_s, 0, endless, true, in_step_and_ring, in_ring},
    {"ring_few_ranks_penalty", "ranks", &own::ring_few_ranks_penalty, 0, endless, false, in_step_and_ring, in_ring},
    {"ring_ramp_bytes", "B", &own::ring_ramp_bytes, 0, endless, false, in_step_and_ring, in_ring},
    {"ring_in_step_factor", "factor", &own::ring_in_step_factor, 0, endless, true, in_step, never},
    {"near_latency_s", "s", &own::near_latency_s, 0, endless, false, in_step, never},
    {"near_latency_per_rank_s", "s/rank", &own::near_latency_per_rank_s, 0, endless, false, in_step, never},
    {"far_latency_s", "s", &own::far_latency_s, 0, endless, false, in_step, never},
    {"hop_latency_s", "s", &own::hop_latency_s, 0, endless, false, in_step, never},
    {"nvlink_share", "share", &own::nvlink_share, 0, 1, true, in_step, never},
    {"network_share", "share", &own::network_share, 0, 1, true, in_step, never},
    {"send_bytes_per_s", "B/s", &own::send_bytes_per_s, 0, endless, true, in_step, in_step},
    {"send_exposed_share", "share", &own::send_exposed_share, 0, 1, false, in_step, never},
    {"tensor_hidden_share", "share", &own::tensor_hidden_share, 0, 1, false, in_step, never},
    {"data_exposed_share", "share", &own::data_exposed_share, 0, 1, false, in_step, never},
    {"overlap_contention_share", "share", &own::overlap_contention_share, 0, 1, false, in_step, never},
    {"product_share", "share", &own::product_share, 0, 1, true, in_step_and_product, in_step_and_product},
    {"product_lost_waves", "waves", &own::product_lost_waves, 0, endless, false, in_step_and_product,
     in_step_and_product},
    {"product_fill_k_elements", "k", &own::product_fill_k_elements, 0, endless, false, in_step_and_product,
     in_step_and_product},
    {"attention_share", "share", &own::attention_share, 0, 1, true, in_step, in_step},
    {"softmax_bytes_per_score", "B/score", &own::softmax_bytes_per_score, 0, endless, false, in_step, never},
    {"odd_heads_factor", "factor", &own::odd_heads_factor, 0, endless, true, in_step, never},
    {"elementwise_bytes_per_hidden", "B/(token hidden)", &own::elementwise_bytes_per_hidden, 0, endless, false, in_step,
     in_step},
    {"elementwise_bytes_per_ffn", "B/(token ffn)", &own::elementwise_bytes_per_ffn, 0, endless, false, in_step,
     in_step},
    {"elementwise_backward_factor", "factor", &own::elementwise_backward_factor, 0, endless, true, in_step, never},
    {"loss_bytes_per_logit", "B/logit", &own::loss_bytes_per_logit, 0, endless, false, in_step, in_step},
    {"unsplit_vocabulary_factor", "factor", &own::unsplit_vocabulary_factor, 0, endless, true, in_step, never},
    {"host_layer_s", "s", &own::host_layer_s, 0, endless, false, in_step, in_step},
    {"host_collective_s_per_rank", "s/rank", &own::host_collective_s_per_rank, 0, endless, false, in_step, never},
    {"host_sharpness", "1", &own::host_sharpness, 1, endless, true, in_step, in_step},
    {"straggler_share", "share", &own::straggler_share, 0, 1, false, in_step, never},
    {"slow_pcie_factor", "factor", &own::slow_pcie_factor, 0, endless, true, in_step, never},
    {"update_bytes_per_parameter", "B/parameter", &own::update_bytes_per_parameter, 0, endless, false, in_step,
     in_step},
    {"update_fixed_s", "s", &own::update_fixed_s, 0, endless, false, in_step, in_step},
    {"optimizer_bytes_per_parameter", "B/parameter", &own::optimizer_bytes_per_parameter, 0, endless, false, in_memory,
     in_memory},
    {"whole_optimizer_extra_bytes", "B/parameter", &own::whole_optimizer_extra_bytes, 0, endless, false, in_memory,
     never},
    {"work_bytes_per_hidden", "B/(token hidden)", &own::work_bytes_per_hidden, 0, endless, false, in_memory, never},
    {"saved_bytes_per_hidden", "B/(token hidden)", &own::saved_bytes_per_hidden, 0, endless, false, in_memory, never},
    {"saved_bytes_per_ffn", "B/(token ffn)", &own::saved_bytes_per_ffn, 0, endless, false, in_memory, never},
    {"logit_bytes", "B/logit", &own::logit_bytes, 0, endless, false, in_memory, in_memory},
    {"context_bytes", "B", &own::context_bytes, 0, endless, false, in_memory, in_memory},
    {"nn_factor", "factor", &own::nn_factor, 0, endless, true, in_product, in_product},
    {"nt_fp32_factor", "factor", &own::nt_fp32_factor, 0, endless, true, in_product, in_product},
    {"nt_bf16_factor", "factor", &own::nt_bf16_factor, 0, endless, true, in_product, never},
    {"memory_share", "share", &own::memory_share, 0, 1, true, in_product, in_product},
    {"launch_s", "s", &own::launch_s, 0, endless, false, in_product, in_product},
    {"burst_factor", "factor", &own::burst_factor, 0, endless, true, in_product, never},
    {"burst_flops", "flop", &own::burst_flops, 0, endless, false, in_product, never},
    {"attention_forward_share", "share", &own::attention_forward_share, 0, 1, true, in_attention, in_attention},
    {"attention_backward_share", "share", &own::attention_backward_share, 0, 1, true, in_attention, in_attention},
    {"wide_head_forward_factor", "factor", &own::wide_head_forward_factor, 0, endless, true, in_attention,
     in_attention},
    {"wide_head_backward_factor", "factor", &own::wide_head_backward_factor, 0, endless, true, in_attention,
     in_attention},
    {"attention_forward_s_per_key", "s/key", &own::attention_forward_s_per_key, 0, endless, false, in_attention,
     in_attention},
    {"attention_backward_s_per_key", "s/key", &own::attention_backward_s_per_key, 0, endless, false, in_attention,
     in_attention},
    {"attention_forward_sharpness", "1", &own::attention_forward_sharpness, 1, endless, true, in_attention,
     in_attention},
    {"attention_backward_sharpness", "1", &own::attention_backward_sharpness, 1, endless, true, in_attention,
     in_attention},
};

constexpr card_row all_card_rows[] = {
    {"peak_flops_per_s", "flop/s", &card::peak_flops_per_s, true},
    {"memory_bytes_per_s", "B/s", &card::memory_bytes_per_s, true},
    {"memory_bytes", "B", &card::memory_bytes, true},
    {"nvlink_bytes_per_s", "B/s", &card::nvlink_bytes_per_s, false},
    {"network_bytes_per_s", "B/s", &card::network_bytes_per_s, false},
    {"node_gpus", "GPUs", &card::node_gpus, true},
    {"sms", "SMs", &card::sms, true},
};

constexpr std::array<std::string_view, std::size(all_quantities)> quantity_names = {"step", "memory", "product",
                                                                                    "attention", "all_reduce"};

}  // namespace

std::span<const constant_row> constant_rows() { return all_constants; }

std::span<const card_row> card_rows() { return all_card_rows; }

const constant_row* find_constant(std::string_view name) {
  const auto* const at = std::ranges::find(all_constants, name, &constant_row::name);
  return at == std::end(all_constants) ? nullptr : at;
}

std::string_view name_of(quantity q) { return quantity_names[static_cast<size_t>(q)]; }

std::string_view unit_of(quantity q) { return q == quantity::memory ? "B" : "s"; }

}  // namespace troupe::hardware
