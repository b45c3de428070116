#include "apps/simulate/job_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/dtype.hpp"
#include "core/training_types.hpp"
#include "hardware/step_cost.hpp"
#include "hardware/step_form.hpp"
#include "plan/schedule/named.hpp"

namespace troupe::apps {
namespace {

/// Largest number of data ranks, the limit in the range of `parallel.data`.
constexpr uint64_t data_ranks_max = 65536;

/// Collects what a workload cannot express, one sentence for each.
class inexpressible {
 public:
  /// Adds a sentence if `is_asked`: a key, and why a job with it has no price.
  void when(bool is_asked, std::string_view key, std::string_view why) {
    if (is_asked) out_.push_back(fmt::format("{}: {}", key, why));
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(out_); }
  [[nodiscard]] bool is_empty() const { return out_.empty(); }

 private:
  std::vector<std::string> out_;
};

void add_storage(const config::job_config& job, inexpressible& out) {
  constexpr std::string_view why =
      "copies to and from host memory and files have no price; wanted none for a prediction";
  using config::offload_device;
  const auto& z = job.zero_optimization;
  out.when(z.offload_param.device != offload_device::none, "zero_optimization.offload_param.device", why);
  out.when(z.offload_optimizer.device != offload_device::none, "zero_optimization.offload_optimizer.device", why);
  out.when(job.offload_activations != offload_device::none, "cluster.offload_activations", why);
  out.when(z.zenflow.enabled, "zero_optimization.zenflow", "updates of chosen columns have no price");
}

void add_training(const config::job_config& job, inexpressible& out) {
  using core::optimizer_type;
  const auto rule = job.optimizer.type;
  out.when(rule != optimizer_type::adam && rule != optimizer_type::adamw, "optimizer.type",
           fmt::format("the stacks' updates are Adam's; wanted Adam or AdamW, got {}", core::name_of(rule)));
  out.when(job.lora.given, "lora", "adapters and frozen weights have no price");
  out.when(std::ranges::any_of(job.parameter_groups, [](const auto& g) { return !g.trainable; }), "parameter_groups",
           "frozen parameters have no price");
  out.when(job.compression.any() || job.compression.layers.enabled, "compression_training",
           "compressed weights have no price");
  out.when(job.distillation.enabled || !job.model.teacher.empty(), "model.teacher", "a teacher has no price");
  out.when(job.ema.given, "ema", "an average of the weights has no price");
  out.when(job.loss.label_smoothing > 0 || job.loss.z_loss > 0, "loss",
           "terms beside the cross-entropy have no price; wanted none for a prediction");
  out.when(job.compile.enabled, "compile", "passes change the step, and the cost model has one form of it");
  out.when(!job.data.rampup_batch_size.empty(), "data.rampup_batch_size",
           "steps of several sizes have no single price; predict a job with the train_batch_size in question");
  out.when(!job.managed_gradient_accumulation, "managed_gradient_accumulation",
           "steps of several sizes have no single price");
  out.when(job.data.document_mask, "data.document_mask", "attention within documents has no price");
  out.when(job.activation_checkpointing.selective, "activation_checkpointing.selective",
           "the cost model recomputes whole blocks; wanted false");
  out.when(job.row_tile_bytes > 0, "cluster.row_tile_bytes", "tiles of rows have no price; wanted 0");
  out.when(job.mlp_tile_bytes > 0, "cluster.mlp_tile_bytes", "tiles of rows have no price; wanted 0");
}

void add_precision(const config::job_config& job, const hardware::stack& by, inexpressible& out) {
  const auto type = job.parameter_dtype();
  out.when(
      type != core::dtype::bf16 && type != core::dtype::f16, "bf16.enabled",
      fmt::format("all constants of {} are of 16-bit products; wanted true, or fp16.enabled: true, got a job in {}",
                  by.name, core::name_of(type)));
}

void add_degrees(const config::job_config& job, const hardware::step_form& form, const hardware::stack& by,
                 inexpressible& out) {
  const auto& p = job.parallel;
  const auto& z = job.zero_optimization;
  out.when(!job.open_degrees.empty(), "parallel",
           "degrees that are auto have no price; give numbers (troupe plan --degrees lists the choices)");
  out.when(p.sequence > 1, "parallel.sequence", "exchanges of heads for tokens have no price; wanted 1, or context");
  out.when(p.expert > 1, "parallel.expert", "experts have no price; wanted 1");
  out.when(p.shard != 0 && p.shard != p.data, "parallel.shard",
           "several copies of divided states have no price; wanted the number of data ranks");
  out.when(z.zero_hpz_partition_size > 1, "zero_optimization.zero_hpz_partition_size",
           "a second copy of the parameters has no price; wanted 1");
  out.when(!z.overlap_comm && p.data > 1, "zero_optimization.overlap_comm",
           "the cost model exchanges gradients under backward; wanted true");
  out.when(p.context > 1 && !form.fused_attention, "parallel.context",
           fmt::format("{} has no ring of keys and values; wanted 1", by.software));
  const bool is_per_step = job.order == config::gradient_order::per_step;
  out.when(job.order != config::gradient_order::automatic && job.gradient_accumulation_steps > 1 &&
               is_per_step != (z.stage <= 1),
           "gradient_order",
           fmt::format("the cost model exchanges gradients once a {} at stage {}; wanted {}",
                       z.stage <= 1 ? "step" : "micro-batch", z.stage, z.stage <= 1 ? "per_step" : "per_micro_batch"));
  if (p.tensor == 1) return;
  const auto& t = job.tensor_parallel;
  out.when(p.sharded_norms && !form.sequence_parallel, "parallel.sharded_norms",
           fmt::format("{} does not divide norms over tensor ranks; wanted false", by.software));
  out.when(t.chooses(), "tensor_parallel", "a choice of layers has no price; every layer is divided over tensor ranks");
  out.when(t.vocabulary_head && !*t.vocabulary_head, "tensor_parallel.vocab_parallel_lm_head",
           "the cost model divides the vocabulary over tensor ranks; wanted true");
  out.when(p.exchange_pieces > 1, "tensor_parallel.exchange_pieces",
           fmt::format("pieces of an exchange have no price beyond what {} hides; wanted 1", by.software));
  out.when(p.overlap_comm, "tensor_parallel.tp_overlap_comm",
           fmt::format("what {} hides of an exchange is a constant; wanted false", by.software));
}

void add_pipeline(const config::job_config& job, const models::model_spec& spec, inexpressible& out) {
  const auto& p = job.pipeline;
  const uint32_t ranks = job.parallel.pipeline;
  if (!p.cuts(ranks)) return;
  const auto named = plan::find_schedule(p.schedule);
  const bool is_interleaved = named && (*named)->name == "interleaved_1f1b";
  const bool is_plain = named && (*named)->name == "1f1b";
  out.when(!is_interleaved && !is_plain, "pipeline.schedule",
           fmt::format("the cost model has 1f1b and interleaved_1f1b; wanted one of them, got {}", p.schedule));
  out.when(p.chunks > 1 && (ranks == 1 || is_plain), "pipeline.chunks",
           "several stages of a rank have a price with interleaved_1f1b on several ranks; wanted 1");
  out.when(!p.first_units.empty() || (p.partition != "best" && p.partition != "uniform"), "pipeline.partition",
           "the cost model has equal stages; wanted best or uniform");
  out.when(p.memory_limit > 0 || p.in_flight_limit > 0, "pipeline", "limits of what is in flight have no price");
  const uint64_t stages = uint64_t{ranks} * std::max(p.chunks, 1U);
  out.when(
      spec.layers % stages != 0, "parallel.pipeline",
      fmt::format("the cost model has equal stages; wanted stages that divide {} layers, got {}", spec.layers, stages));
}

void add_model(const config::job_config& job, const models::model_spec& spec, uint64_t sequence, inexpressible& out) {
  const auto& f = *spec.family;
  constexpr std::string_view key = "model";
  const auto no_price = [&](std::string_view what) {
    return fmt::format("{} of a {} model {} no price", what, f.model_type, what.ends_with('s') ? "have" : "has");
  };
  out.when(f.is_encoder, key, no_price("the masked tokens"));
  out.when(f.has_query_norms(), key, no_price("norms of queries and keys"));
  out.when(f.has_end_norms(), key, no_price("norms of attention's and the MLP's outputs"));
  out.when(spec.parallel_residual, key, no_price("attention beside the MLP"));
  bool has_window = false, has_cap = false;
  for (uint32_t b = 0; b < spec.layers; ++b) {
    const auto options = spec.attention_in(b);
    has_window = has_window || (options.window > 0 && static_cast<uint64_t>(options.window) < sequence);
    has_cap = has_cap || options.soft_cap > 0;
  }
  out.when(has_window, key, no_price("windows of attention that are shorter than the samples"));
  out.when(has_cap || spec.logits.soft_cap > 0, key, no_price("the soft cap"));
  out.when(uint64_t{spec.heads} * spec.head_width != spec.width, key,
           fmt::format("heads have a price if their widths add up to the hidden size {}, got {} x {}", spec.width,
                       spec.heads, spec.head_width));
  const uint32_t t = job.parallel.tensor;
  out.when(
      spec.heads % t != 0 || spec.kv_heads % t != 0 || spec.inner % t != 0, "parallel.tensor",
      fmt::format("the cost model divides layers evenly; wanted a divisor of {} heads, {} key-value heads and {} of "
                  "the MLP, got {}",
                  spec.heads, spec.kv_heads, spec.inner, t));
}

hardware::workload expressed(const config::job_config& job, const models::model_spec& spec, uint64_t sequence,
                             const hardware::step_form& form) {
  hardware::workload w;
  w.hidden = spec.width;
  w.ffn = spec.inner;
  w.heads = spec.heads;
  w.kv_heads = spec.kv_heads;
  w.layers = spec.layers;
  w.sequence = static_cast<double>(sequence);
  w.vocabulary = spec.vocabulary;
  w.tensor = job.parallel.tensor;
  w.data = job.parallel.data;
  w.pipeline = job.parallel.pipeline;
  w.context = job.parallel.context;
  w.chunks = std::max(job.pipeline.chunks, 1U);
  w.micro_batch = static_cast<double>(job.train_micro_batch_size_per_gpu);
  w.micro_batches = static_cast<double>(job.gradient_accumulation_steps);
  w.zero = static_cast<int>(job.zero_optimization.stage);
  w.gated = spec.family->is_gated();
  w.recompute = job.activation_checkpointing.enabled;
  w.early_stop = w.recompute && form.early_stop;
  w.fused_attention = w.causal_skip = form.fused_attention;
  w.sequence_parallel = form.sequence_parallel;
  w.bias = spec.attention_bias && spec.mlp_bias;
  w.learned_positions = !spec.family->is_rotary();
  w.untied = !spec.tied;
  const auto reduced_bytes = static_cast<double>(core::size_of(job.communication_dtype()));
  // An all-reduce of ZeRO-1 reduces gradients in one direction and gathers weights in the other.
  w.grad_bytes = w.zero == 1 ? (reduced_bytes + w.gather_bytes) / 2 : reduced_bytes;
  w.reduce_bytes = reduced_bytes;
  w.main_grad_bytes = static_cast<double>(core::size_of(job.accumulation_dtype()));
  return w;
}

/// Returns the parameters that the cost model counts, with all learned positions.
double counted_parameters(const hardware::workload& w, const models::model_spec& spec) {
  return w.layers * hardware::layer_parameters(w) + (w.untied ? 2.0 : 1.0) * w.vocabulary * w.hidden +
         (w.learned_positions ? double(spec.positions) * w.hidden : 0.0);
}

}  // namespace

counted_model count_model(const models::model_spec& spec, uint64_t sequence) {
  constexpr uint64_t samples = 1, element_bytes = 2;
  const auto table = models::make_model_table(spec, samples, sequence, element_bytes);
  return {table.numel(), table.step_flops()};
}

tl::expected<job_workload, std::vector<std::string>> workload_of_job(const config::job_config& job,
                                                                     const models::model_spec& spec, uint64_t sequence,
                                                                     const hardware::stack& by) {
  return workload_of_job(job, spec, sequence, by, count_model(spec, sequence));
}

tl::expected<job_workload, std::vector<std::string>> workload_of_job(const config::job_config& job,
                                                                     const models::model_spec& spec, uint64_t sequence,
                                                                     const hardware::stack& by,
                                                                     const counted_model& model) {
  // Parameters of norms and of some biases are no part of the cost model's count.
  constexpr double most_uncounted = 0.02;
  inexpressible problems;
  const auto* const form = hardware::step_form_of(by);
  if (form == nullptr)
    return tl::unexpected(std::vector<std::string>{fmt::format("{} does not say how it computes a step", by.name)});
  add_precision(job, by, problems);
  add_degrees(job, *form, by, problems);
  add_pipeline(job, spec, problems);
  add_model(job, spec, sequence, problems);
  add_training(job, problems);
  add_storage(job, problems);
  if (!problems.is_empty()) return tl::unexpected(problems.take());

  job_workload out;
  out.what = expressed(job, spec, sequence, *form);
  out.parameters = model.parameters;
  const double counted = counted_parameters(out.what, spec);
  problems.when(
      std::abs(counted / double(out.parameters) - 1) > most_uncounted, "model",
      fmt::format("a {} model of this shape has {} parameters, and the cost model counts {:.0f}: it has layers "
                  "without a price",
                  spec.family->model_type, out.parameters, counted));
  if (!problems.is_empty()) return tl::unexpected(problems.take());
  out.ranks = job.parallel.ranks();
  out.global_batch = job.train_batch_size;
  out.sequence = sequence;
  out.step_flops = model.sample_flops * double(out.global_batch);
  out.reduced_bytes = out.what.reduce_bytes;
  out.summed_bytes = out.what.main_grad_bytes;
  return out;
}

core::result<uint32_t> data_degree_for(const config::parallel_section& p, uint64_t ranks) {
  const uint64_t others = uint64_t{p.pipeline} * p.tensor * p.sequence * p.context;
  if (ranks % others != 0) {
    const uint64_t below = ranks / others * others;
    const auto nearest = below == 0 ? fmt::format("the nearest is {}", others)
                                    : fmt::format("the nearest are {} and {}", below, below + others);
    return core::refused(fmt::format(
        "--ranks: wanted a multiple of {}, the product of the degrees that are not data (pipeline {}, tensor "
        "{}, sequence {}, context {}), got {}; {}",
        others, p.pipeline, p.tensor, p.sequence, p.context, ranks, nearest));
  }
  if (ranks / others > data_ranks_max)
    return core::refused(fmt::format("--ranks: wanted at most {}, {} data ranks times the other degrees, got {}",
                                     data_ranks_max * others, data_ranks_max, ranks));
  return static_cast<uint32_t>(ranks / others);
}

}  // namespace troupe::apps
