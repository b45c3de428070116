#include "apps/simulate/card_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "core/dtype.hpp"
#include "hardware/kernel_cost.hpp"
#include "hardware/step_form.hpp"
#include "plan/choose/cost_terms.hpp"
#include "plan/kinds.hpp"

namespace troupe::apps {
namespace {

using hardware::constants;

const constants& constants_of(const hardware::stack& by) { return by.find(hardware::quantity::step)->values; }

core::result<void> present(std::span<double constants::*const> wanted, const hardware::stack& by,
                           std::string_view why) {
  for (const auto field : wanted) {
    if (!std::isnan(constants_of(by).*field)) continue;
    const auto rows = hardware::constant_rows();
    const auto row = std::ranges::find(rows, field, &hardware::constant_row::field);
    return core::refused(fmt::format("{}: the constant {} is absent, and {} needs it", by.name, row->name, why));
  }
  return {};
}

core::result<void> present(double hardware::card::*field, const hardware::stack& by, std::string_view why) {
  if (!std::isnan(by.on.*field)) return {};
  const auto rows = hardware::card_rows();
  const auto row = std::ranges::find(rows, field, &hardware::card_row::field);
  return core::refused(fmt::format("{}: the card {} has no {}, and {} needs it", by.name, by.on.name, row->name, why));
}

core::result<void> check_links(const hardware::stack& by, uint64_t ranks) {
  using k = constants;
  if (ranks == 1) return {};
  const auto& c = constants_of(by);
  if (c.ring_in_step_factor > 0)
    return core::refused(fmt::format(
        "{}: its collectives are those of one node's ring, whose time is no straight line in the bytes; the plan's "
        "actors need another stack",
        by.name));
  TROUPE_TRY(present(&hardware::card::nvlink_bytes_per_s, by, "a collective within a node"));
  constexpr double k::*near[] = {&k::nvlink_share};
  TROUPE_TRY(present(near, by, "a collective within a node"));
  if (std::isnan(c.hop_latency_s)) {
    constexpr double k::*latencies[] = {&k::near_latency_s, &k::near_latency_per_rank_s, &k::far_latency_s};
    TROUPE_TRY(present(latencies, by, "a collective"));
  }
  if (static_cast<double>(ranks) <= by.on.node_gpus) return {};
  TROUPE_TRY(present(&hardware::card::network_bytes_per_s, by, "a collective between nodes"));
  constexpr double k::*far[] = {&k::network_share};
  return present(far, by, "a collective between nodes");
}

/// Amounts of the terms of one unit's instructions in one micro-batch.
struct unit_amounts {
  double elementwise_bytes = 0, activation_bytes = 0, launches = 0;
  double norm_elements = 0;      ///< elements of a norm's rows, tokens times width
  double inner_elements = 0;     ///< tokens times the width of what an activation computes
  bool repeats_forward = false;  ///< forward is recomputed
};

/// Returns the unit with the most flops of forward that ends in no loss; the first one of a plan that computes none.
uint32_t largest_unit(const plan::rank_plan& p) {
  uint32_t out = 0;
  double most = -1;
  for (const auto& x : p.instructions) {
    if (x.kind != plan::kind::forward || x.subject + 1 == p.table().units.size()) continue;
    double flops = 0;
    for (const auto& s : p.table().units[x.subject].segments) flops += s.forward_flops;
    if (flops <= most) continue;
    most = flops;
    out = x.subject;
  }
  return out;
}

bool is_of_unit(const plan::instruction& x, uint32_t unit) {
  return plan::computes(x) && x.subject == unit && x.micro == 0;
}

unit_amounts amounts_of(const plan::rank_plan& p, uint32_t unit, const plan::cost_model& costs) {
  unit_amounts out;
  for (const auto& x : p.instructions) {
    if (!is_of_unit(x, unit)) continue;
    out.repeats_forward |= x.kind == plan::kind::recompute;
    for (const auto& term : plan::cost_terms(p, x, costs)) {
      if (term.kind == plan::cost_kind::elementwise) out.elementwise_bytes += term.amount;
      if (term.kind == plan::cost_kind::activation) out.activation_bytes += term.amount;
      if (term.kind == plan::cost_kind::launch) out.launches += term.amount;
    }
  }
  const auto& segments = p.table().units[unit].segments;
  for (uint32_t s = 0; s < segments.size(); ++s)
    for (const auto& l : p.table().layers_of(unit, s)) {
      if (l.kind == core::layer_kind::norm)
        out.norm_elements = std::max(out.norm_elements, double(l.rows) * double(l.in));
      if (l.kind == core::layer_kind::activation)
        out.inner_elements = std::max(out.inner_elements, double(l.rows) * double(l.out));
    }
  return out;
}

/// Returns the seconds of the unit's instructions in one micro-batch.
double unit_seconds(const plan::rank_plan& p, uint32_t unit, const plan::cost_model& costs) {
  double out = 0;
  for (const auto& x : p.instructions)
    if (is_of_unit(x, unit)) out += plan::predicted_seconds(p, x, costs);
  return out;
}

/// Sets the rates of attention. The plan counts what causal attention needs, half of the scores: a kernel that does not
/// skip the other half takes twice as long. One that is not fused moves each score, too.
void set_attention(plan::machine_costs& m, const hardware::stack& by, const models::model_spec& spec) {
  const auto& c = constants_of(by);
  const auto& form = *hardware::step_form_of(by);
  const bool is_causal = spec.attention_in(0).causal;
  const double peak = by.on.peak_flops_per_s * c.attention_share;
  if (form.fused_attention) {
    m.attention_flops_per_s = peak;
    m.attention_backward_flops_per_s = peak * 2 / 2.5;  // 2.5 times the time of forward, for twice the flops
    return;
  }
  const double of_scores = is_causal ? 2 : 1;  // computed flops for each one that the plan counts
  const double work_s = of_scores / peak;
  const double moved_s =
      of_scores * c.softmax_bytes_per_score / (4 * double(spec.head_width)) / by.on.memory_bytes_per_s;
  m.attention_flops_per_s = 1 / (work_s + moved_s);
  m.attention_backward_flops_per_s = 2 / (2 * work_s + moved_s);
}

/// Sets the rates of norms and activations so that the unit's bytes, as the plan counts them, take the time of the
/// bytes per token that the stack moves in forward and backward.
void set_elementwise(plan::machine_costs& m, const hardware::stack& by, const unit_amounts& unit, bool is_gated) {
  const auto& c = constants_of(by);
  const double passes = 1 + c.elementwise_backward_factor + (unit.repeats_forward ? 1 : 0);
  const double norms = unit.norm_elements * c.elementwise_bytes_per_hidden * passes;
  const double inner = unit.inner_elements * (is_gated ? 1.5 : 1.0) * c.elementwise_bytes_per_ffn * passes;
  const double rate = by.on.memory_bytes_per_s;
  if (norms > 0 && unit.elementwise_bytes > 0) m.elementwise_bytes_per_s = rate * unit.elementwise_bytes / norms;
  if (inner > 0 && unit.activation_bytes > 0) m.activation_bytes_per_s = rate * unit.activation_bytes / inner;
}

}  // namespace

core::result<void> check_priced_on_card(const config::job_config& job, const hardware::stack& by) {
  if (by.find(hardware::quantity::step) == nullptr || hardware::step_form_of(by) == nullptr)
    return core::refused(fmt::format("{}: the stack has no constants of steps", by.name));
  using k = constants;
  if (!hardware::step_form_of(by)->fused_attention) {
    constexpr double k::*scores[] = {&k::softmax_bytes_per_score};
    TROUPE_TRY(present(scores, by, "attention that is not fused"));
  }
  const auto type = job.parameter_dtype();
  if (type != core::dtype::bf16 && type != core::dtype::f16)
    return core::refused(fmt::format(
        "bf16.enabled: all constants of {} are of 16-bit products; wanted true, or fp16.enabled: true, got a job in {}",
        by.name, core::name_of(type)));
  constexpr std::string_view why = "copies to and from host memory and files have no price on a card; wanted none";
  using config::offload_device;
  const auto& z = job.zero_optimization;
  const std::pair<std::string_view, offload_device> elsewhere[] = {
      {"zero_optimization.offload_param.device", z.offload_param.device},
      {"zero_optimization.offload_optimizer.device", z.offload_optimizer.device},
      {"cluster.offload_activations", job.offload_activations}};
  for (const auto& [key, device] : elsewhere)
    if (device != offload_device::none) return core::refused(fmt::format("{}: {}", key, why));
  return check_links(by, job.parallel.ranks());
}

plan::cost_model costs_on_card(const hardware::stack& by, const plan::rank_plan& p, const models::model_spec& spec,
                               plan::cost_model disk) {
  constexpr double tile_elements = 128 * 256;
  const auto& c = constants_of(by);
  const double bytes_per_s = by.on.memory_bytes_per_s;
  plan::cost_model out = disk;
  out.device_bytes_per_s = out.link_bytes_per_s = 0;
  plan::machine_costs& m = out.machine;
  m = {};
  m.product_flops_per_s = by.on.peak_flops_per_s * c.product_share;
  m.product_fill_k = c.product_fill_k_elements;
  m.product_lost = c.product_lost_waves * by.on.sms * tile_elements;
  set_attention(m, by, spec);
  m.elementwise_bytes_per_s = m.activation_bytes_per_s = bytes_per_s;
  m.copy_bytes_per_s = m.reduce_bytes_per_s = m.update_bytes_per_s = bytes_per_s;
  // The plan counts four accesses to each logit, of the bytes of a parameter.
  const double counted = 4.0 * static_cast<double>(core::size_of(p.options().types.parameter));
  m.loss_bytes_per_s = c.loss_bytes_per_logit > 0 ? bytes_per_s * counted / c.loss_bytes_per_logit : bytes_per_s;
  m.launch_s = 1;
  m.wakeup_s = out.latency_s;
  const uint32_t unit = largest_unit(p);
  const auto amounts = amounts_of(p, unit, out);
  m.launch_s = 0;
  set_elementwise(m, by, amounts, spec.family->is_gated());
  out.flops_per_s = m.product_flops_per_s;
  out.copy_bytes_per_s = m.copy_bytes_per_s;
  const double device_s = unit_seconds(p, unit, out);
  const double host_s = c.host_layer_s * (amounts.repeats_forward ? 4 : 3) / 4;
  if (amounts.launches > 0 && device_s > 0 && host_s > 0)
    m.launch_s = (hardware::smooth_max_s(device_s, host_s, c.host_sharpness) - device_s) / amounts.launches;
  return out;
}

fabric::linear_link link_on_card(const hardware::stack& by, const std::vector<uint32_t>& ranks) {
  const auto& c = constants_of(by);
  const auto& on = by.on;
  const double n = static_cast<double>(ranks.size());
  if (ranks.size() < 2) return {0, on.memory_bytes_per_s};
  const auto node_gpus = static_cast<uint32_t>(on.node_gpus);
  uint32_t inside = 0, nodes = 0, here = 0, node = 0;
  for (const uint32_t r : ranks) {
    if (here == 0 || r / node_gpus != node) {
      node = r / node_gpus;
      here = 0;
      ++nodes;
    }
    inside = std::max(inside, ++here);
  }
  double bytes_per_s = on.nvlink_bytes_per_s * c.nvlink_share;
  if (nodes > 1) bytes_per_s = std::min(bytes_per_s, on.network_bytes_per_s * inside * c.network_share);
  double latency_s = c.hop_latency_s * (n - 1);
  if (std::isnan(c.hop_latency_s)) {
    latency_s = inside > 1 ? c.near_latency_s + c.near_latency_per_rank_s * (inside - 1) : 0;
    if (nodes > 1) latency_s += c.far_latency_s * std::log2(std::max(2U, nodes));
  }
  return {1e6 * latency_s, bytes_per_s};
}

}  // namespace troupe::apps
