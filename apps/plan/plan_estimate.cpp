// Formats `troupe plan --estimate`: rules of thumb next to the plan's own numbers. Text only.
#include "apps/plan/plan_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/text.hpp"
#include "plan/choose/bandwidth.hpp"
#include "plan/choose/estimate.hpp"

namespace troupe::apps {
namespace {

using core::text_of;

/// Returns the number of parameters of the pipeline rank with the most parameters.
uint64_t parameters_of_a_rank(const job::blueprint& b) {
  const auto& l = b.train.layout();
  std::vector<uint64_t> held(l.options.mesh.degree(core::axis::pipeline), 0);
  for (size_t q = 0; q < l.pipeline_of.size(); ++q) held[l.pipeline_of[q]] += l.table->parameters[q].numel();
  return *std::ranges::max_element(held);
}

std::string static_sizes(const job::blueprint& b, uint64_t parameters) {
  const auto& options = b.train.layout().options;
  std::string out = "model states of a rank, Adam in mixed precision:";
  for (uint32_t stage = 0; stage <= 3; ++stage)
    out += text_of("%s stage %u %s", stage == 0 ? "" : ",", stage,
                   core::human_bytes(plan::static_state_bytes(parameters, options.shards(), stage)).c_str());
  const uint64_t bucket = plan::static_bucket_bytes(
      std::min(options.gradients.reduce_bucket, parameters), core::size_of(options.bucket_type()), options.stage,
      options.overlap ? plan::reduction::overlapped : plan::reduction::awaited);
  return fmt::format("{}\nbuckets of gradients at stage {}: {}\n", out, options.stage, core::human_bytes(bucket));
}

std::string own_peak(const job::blueprint& b) {
  uint64_t all = 0, largest = 0, states = 0;
  for (uint32_t r = 0; r < b.train.ranks(); ++r) {
    const auto& m = b.train.like(r).memory;
    all += m.total();
    largest = std::max(largest, m.total());
    states = std::max(states, m.total() - m.activations);
  }
  const auto& options = b.train.layout().options;
  return text_of("this plan, stage %u in %s, activations and buffers included: peak of a rank %s, of all ranks %s\n",
                 options.stage, std::string(core::name_of(options.types.parameter)).c_str(),
                 core::human_bytes(largest).c_str(), core::human_bytes(all).c_str()) +
         text_of("  without activations: %s\n", core::human_bytes(states).c_str());
}

plan::transformer_shape shape_of(const job::blueprint& b) {
  return {b.spec.width, b.config->train_micro_batch_size_per_gpu * b.train.layout().options.accumulation, b.sequence,
          1};
}

}  // namespace

std::string efficiency_summary(const job::blueprint& b, const plan::cost_model& costs) {
  const auto& options = b.train.layout().options;
  const double rate = costs.disk_read_bytes_per_s / options.ranks();
  const auto n = plan::intensity_of(shape_of(b));
  std::string out =
      text_of("ZeRO-Infinity's model, a rank of %.3g GFLOP/s with %.3g GB/s of the disk, nothing hidden:\n",
              costs.flops_per_s / 1e9, rate / 1e9);
  const struct {
    const char* what;
    double intensity;
  } rows[] = {
      {"parameters and gradients", n.parameters}, {"optimizer states", n.optimizer}, {"activations", n.activations}};
  for (const auto& x : rows)
    if (x.intensity > 0)
      out += text_of("  %-24s  %8.6g flops a byte  efficiency %5.1f %%  half at %.3g GB/s\n", x.what, x.intensity,
                     100 * plan::transfer_efficiency(x.intensity, rate, costs.flops_per_s),
                     plan::bandwidth_for(0.5, x.intensity, costs.flops_per_s) / 1e9);
  return out;
}

std::string estimate_summary(const job::blueprint& b, const plan::cost_model& costs) {
  const auto& options = b.train.layout().options;
  const plan::machine_shape shape{.gpus_per_node = options.data(), .nodes = 1};
  auto size = plan::size_of(*b.table);
  size.total = parameters_of_a_rank(b);
  size.largest_layer = std::min(size.largest_layer, size.total);
  const auto moved = plan::swapped_by_deepspeed(size.total, options.shards(), options.accumulation);
  const std::string of = b.pipeline.is_cut() ? "of the ranks with the most parameters of the pipeline's, " : "";
  return of + "DeepSpeed's estimates, ZeRO-2\n" + plan::all_cold_stage2(size.total, shape) + "\n" + of +
         "DeepSpeed's estimates, ZeRO-3\n" + plan::all_cold_stage3(size, shape) + "\n" + static_sizes(b, size.total) +
         own_peak(b) + "\n" + efficiency_summary(b, costs) +
         "with everything on NVMe, DeepSpeed's swappers would read " + core::human_bytes(moved.read) + " and write " +
         core::human_bytes(moved.written) + " a step on each rank\n";
}

}  // namespace troupe::apps
