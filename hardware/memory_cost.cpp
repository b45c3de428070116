#include "hardware/memory_cost.hpp"

#include <algorithm>
#include <cmath>

#include "hardware/kernel_cost.hpp"
#include "hardware/step_cost.hpp"

namespace troupe::hardware {
namespace {

/// One pipeline stage: its layers and tables, and the micro-batches whose activations it holds at once.
struct stage_contents {
  double layers = 0, tables = 0, in_flight = 0;
  bool has_head = false;
};

/// Returns the bytes that each parameter of the largest layer takes beside its divided states: at stage 3 its gathered
/// weight, while the next layer's is gathered; at stages 2 and 3 its gradient until it is reduced.
double whole_bytes_of(const workload& w) {
  if (w.data == 1 || w.zero < 2) return 0;
  return (w.zero == 3 ? 2 * w.gather_bytes : 0.0) + w.reduce_bytes;
}

/// Returns the micro-batches, in whole stages, whose activations stage `stage` holds at once: 1F1B, or interleaved 1F1B
/// as Megatron-LM warms it up, whose stages run 2 (p - 1 - stage) + (v - 1) p + 1 of v parts before the first backward.
double in_flight_of(const workload& w, double stage) {
  const double all = w.chunks > 1 ? w.pipeline + (w.pipeline - 1 - 2 * stage) / w.chunks : w.pipeline - stage;
  return std::min(all, w.micro_batches);
}

}  // namespace

memory_cost cost_of_memory(const workload& w, const constants& c) {
  const double tokens = tokens_of(w), t = w.tensor, p = w.pipeline;
  const double split = w.sequence_parallel ? t : 1.0;
  const double optimizer_bytes = w.zero > 0 ? c.optimizer_bytes_per_parameter / w.data
                                            : c.optimizer_bytes_per_parameter + c.whole_optimizer_extra_bytes;
  constexpr double weight_bytes = 2;
  const double kept_weight_bytes = w.zero == 3 ? weight_bytes / w.data : weight_bytes;
  const double kept_gradient_bytes = w.zero >= 2 ? w.main_grad_bytes / w.data : w.main_grad_bytes;
  const double parameter_bytes = kept_weight_bytes + kept_gradient_bytes + optimizer_bytes;
  const double saved_bytes =
      w.recompute ? 2 * tokens * w.hidden / split
                  : tokens * (w.hidden / split * c.saved_bytes_per_hidden + w.ffn / t * c.saved_bytes_per_ffn);
  const double scores_bytes =
      !w.fused_attention && w.recompute ? 5 * w.heads / t * w.micro_batch * w.sequence * w.sequence : 0.0;
  const auto cost_of = [&](const stage_contents& s) {
    memory_cost out;
    out.states_bytes = (s.layers * layer_parameters(w) + s.tables * table_parameters(w)) / t * parameter_bytes;
    out.activations_bytes = s.layers * saved_bytes * s.in_flight;
    const double largest = std::max(layer_parameters(w), s.tables > 0 ? table_parameters(w) : 0.0) / t;
    out.work_bytes =
        (w.recompute ? c.work_bytes_per_hidden * tokens * w.hidden : 0.0) + scores_bytes + largest * whole_bytes_of(w);
    out.logits_bytes = s.has_head ? tokens * w.vocabulary / t * c.logit_bytes : 0.0;
    out.context_bytes = c.context_bytes;
    out.peak_bytes = out.states_bytes + out.activations_bytes + out.work_bytes + out.logits_bytes + out.context_bytes;
    return out;
  };
  const double inner = layers_of_stage(w), outer = inner - (w.embedding_is_layer ? 1.0 : 0.0);
  if (p == 1) return cost_of({outer, w.untied ? 2.0 : 1.0, in_flight_of(w, 0), true});
  auto fullest = cost_of({outer, 1, in_flight_of(w, 0), false});
  const auto take_fuller = [&](const memory_cost& other) {
    if (other.peak_bytes > fullest.peak_bytes) fullest = other;
  };
  if (p > 2) take_fuller(cost_of({inner, 0, in_flight_of(w, 1), false}));
  take_fuller(cost_of({outer, 1, in_flight_of(w, p - 1), true}));
  return fullest;
}

core::result<void> needs_of_memory(const workload& w, const constants& c) {
  if (!w.recompute && (std::isnan(c.saved_bytes_per_hidden) || std::isnan(c.saved_bytes_per_ffn)))
    return core::refused(
        "the constants saved_bytes_per_hidden and saved_bytes_per_ffn are absent, and activations that are kept need "
        "them");
  if (w.recompute && c.work_bytes_per_hidden == 0)
    return core::refused("the constant work_bytes_per_hidden is absent, and a layer that is recomputed needs it");
  return {};
}

}  // namespace troupe::hardware
