#include "config/keys/idle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "config/keys/values.hpp"

namespace troupe::config {
namespace {

/// Returns the reason why a key of `optimizer.params` or `scheduler.params` has no effect, if the chosen optimizer or
/// scheduler does not read it; else an empty text.
std::string of_other_types(const key_info& key, const job_config& c) {
  const std::string_view type =
      key.section() == "optimizer.params" ? core::name_of(c.optimizer.type) : core::name_of(c.scheduler.type);
  if (key.types.readers.empty() || key.read_by(type)) return {};
  const std::string of = fmt::format("a key of {}", fmt::join(key.types.readers, ", "));
  return type.empty() ? of : fmt::format("{}, not of {}", of, type);
}

/// Returns the reason why a key of `cluster`, or of checkpoints that several processes write, has no effect; empty for
/// all other keys. The rows name the switches of most of these keys.
std::string of_processes(const key_info& key, const job_config& c) {
  const bool serves = !c.cluster.page.empty() && (key.name() == "certificate" || key.name() == "key");
  const bool is_of_hosts = key.key == "cluster.listen" || key.key == "cluster.job" || key.key == "cluster.interface" ||
                           key.key == "cluster.store" || key.section() == "cluster.tls";
  if (is_of_hosts) return c.cluster.hosts.empty() && !serves ? "there are no cluster.hosts" : "";
  const bool recovers =
      key.section() == "cluster.restarts" || key.key == "cluster.min_ranks" || key.key == "cluster.spares";
  if (recovers && c.cluster.on_loss == loss_policy::stop) return "on_loss is stop";
  return key.key == "checkpoint.memory.copies" && c.checkpoint.memory.every_steps == 0 ? "every_steps is 0" : "";
}

/// Returns the reason why a key of evaluation, of activation checkpointing or of the trace has no effect; empty for all
/// other keys.
std::string of_records(const key_info& key, const job_config& c) {
  const bool evaluates = key.section() == "evaluation" || key.key == "ema.evaluate";
  if (evaluates && !c.data.sources.empty() && !c.data.has_validation())
    return "there is neither data.validation_fraction nor data.validation";
  const bool is_of_trace = key.key == "telemetry.trace_from_step" || key.key == "telemetry.trace_steps";
  // A key of the trace also acts without telemetry.trace if the report, which draws a step of the trace, is on.
  if (is_of_trace && !c.telemetry.trace && !c.telemetry.report) return "telemetry.trace and telemetry.report are false";
  if (key.key == "telemetry.trace_from_step" && c.steps > 0 && c.telemetry.trace_from_step >= c.steps)
    return fmt::format("steps are counted from 0 here, and the run has {}", c.steps);
  if (key.key == "activation_checkpointing.partition_activations") {
    if (c.parallel.tensor == 1) return "parallel.tensor is 1";
    return c.activation_checkpointing.enabled ? "" : "activation_checkpointing.enabled is false";
  }
  return {};
}

/// Returns the reason why a key of loading has no effect if `module_only` is true; empty for all other keys.
std::string of_loading(const key_info& key, const checkpoint_load_section& load) {
  const bool is_of_states =
      key.key == "checkpoint.load.optimizer_states" || key.key == "checkpoint.load.lr_scheduler_states";
  return is_of_states && load.module_only ? "module_only is true" : "";
}

/// Returns the reason why a key that acts at some ZeRO stages has no effect; empty for all other keys.
std::string of_stages(const key_info& key, const job_config& c) {
  if (key.section() != "zero_optimization") return {};
  const uint32_t stage = c.zero_optimization.stage;
  const std::string_view name = key.name();
  if (name.starts_with("stage3_") || name == "pipeline_loading_checkpoint" || name == "mics_shard_size" ||
      name == "zero_hpz_partition_size")
    return stage == 3 ? "" : "stage is not 3";
  const bool is_1_or_2 = stage == 1 || stage == 2, is_muon = c.optimizer.type == core::optimizer_type::muon;
  if (name == "ignore_unused_parameters" || (name == "allgather_bucket_size" && !is_muon))
    return is_1_or_2 ? "" : "stage is neither 1 nor 2";
  if (name == "round_robin_gradients") return stage == 0 ? "stage 0 cuts no states" : "";
  if (name != "reduce_scatter") return "";
  if (stage == 0) return "at stage 0 every rank receives all gradients";
  // Stages 2 and 3 refuse prescale_gradients and gradient_predivide_factor if reduce_scatter is on: the value false
  // then has the effect that they are allowed.
  const bool allows = c.prescale_gradients || c.gradient_predivide_factor != 1;
  return stage >= 2 && !c.zero_optimization.reduce_scatter && !allows
             ? "stages 2 and 3 send every gradient to its owner alone"
             : "";
}

/// Returns the reason why a key of fp16, which is enabled, has no effect; empty for all other keys.
std::string of_loss_scale(const key_info& key, const fp16_section& fp16) {
  if (key.section() != "fp16" || fp16.loss_scale == 0) return {};
  return key.name() == "enabled" || key.name() == "loss_scale" ? "" : "fp16.loss_scale is fixed";
}

/// Returns the reason why a key of the teacher model or of the `distillation` section has no effect; empty for all
/// other keys.
std::string of_teacher(const key_info& key, const job_config& c) {
  const auto& d = c.distillation;
  if (key.key == "model.teacher")
    return d.enabled || c.compression.layers.enabled ? "" : "neither distillation nor layer_reduction is enabled";
  const bool is_of_terms = key.section().starts_with("distillation.terms") || key.key == "distillation.temperature";
  if (!is_of_terms) return {};
  if (d.layer_wise) return "distillation.layer_wise.enabled is true";
  if (key.name() == "beta" && d.divergence != divergence_type::jsd) return "divergence is not jsd";
  const bool is_of_logits = key.name() == "temperature" || key.name() == "divergence" || key.name() == "beta";
  return is_of_logits && d.logits == 0 ? "distillation.terms.logits.weight is 0" : "";
}

/// Returns the reason why a key of sparse pruning has no effect, if the chosen method does not read it; empty for all
/// other keys.
std::string of_pruning(const key_info& key, const pruning_section& sparse) {
  constexpr std::string_view snip_alone[] = {"block_pattern", "dense_ratio", "schedule_offset_stride",
                                             "schedule_offset_end", "excluded_modules"};
  if (key.section() != "compression_training.sparse_pruning.shared_parameters") return {};
  const bool is_read = sparse.method == pruning_method::snip_momentum ||
                       std::ranges::find(snip_alone, key.name()) == std::end(snip_alone);
  return is_read ? "" : "method is not snip_momentum";
}

/// Returns the reason why a number of the chosen optimizer or curve has no effect because of its other numbers; empty
/// for all other keys.
std::string of_numbers(const key_info& key, const job_config& c) {
  if (key.key == "optimizer.params.dampening") return c.optimizer.momentum == 0 ? "momentum is 0" : "";
  if (key.section() != "scheduler.params") return {};
  const auto& s = c.scheduler;
  const bool is_of_momentum = key.name().ends_with("_mom") || key.name() == "decay_mom_rate";
  if (is_of_momentum && !s.cycle_momentum) return "cycle_momentum is false";
  const bool decays = key.name() == "decay_lr_rate" || key.name() == "decay_mom_rate";
  return decays && s.decay_step_size == 0 ? "decay_step_size is 0" : "";
}

/// Returns the reason why a key has no effect because of the values of keys that are not its switch; empty for all
/// other keys.
std::string of_other_values(const key_info& key, const job_config& c) {
  const auto is_text = [](const data_source& x) { return x.text.extension() == ".txt"; };
  if (key.key == "sample.prompt" && !c.sample.question.empty()) return "sample.question is set";
  if (key.key == "checkpoint.when_busy" && !c.checkpoint.asynchronous)
    return "checkpoint.asynchronous is false: a checkpoint ends before the next is due";
  if (key.key == "sequence_parallel.enabled" && c.degrees.sequence_enabled && c.degrees.sequence_size == 1)
    return "sequence_parallel.size is 1";
  if (key.key == "prescale_gradients" && c.prescale_gradients && c.gradient_predivide_factor == 1 &&
      c.parallel.data == 1)
    return "there is one data rank";
  if (key.key == "gradient_predivide_factor" && c.prescale_gradients && c.gradient_predivide_factor != 1)
    return "prescale_gradients is true, which divides by the number of data ranks before the sum";
  const bool is_of_chat =
      key.key == "data.chat_template" || key.key == "data.chat_date" || key.key == "data.loss_on";
  if (is_of_chat && !c.data.sources.empty() && !has_any_form(c.data, "chat", "instruct"))
    return "it is for conversations and prompts, and no source has the form chat or instruct";
  const bool is_of_rows = key.key == "data.too_long" || key.key == "data.packing";
  if (is_of_rows && !c.data.sources.empty() && !has_any_form(c.data, "chat", "instruct") &&
      !has_any_form(c.data, "labelled"))
    return "it is for samples that are packed into rows, and every source has the form text";
  if (key.key == "data.bin_dtype" && !c.data.sources.empty() && std::ranges::all_of(c.data.sources, is_text) &&
      std::ranges::all_of(c.data.validation, is_text))
    return "it is the type of tokens in .bin files, and every source is plain text";
  if (key.key == "comms_logger.prof_ops" && c.comms_logger.prof_all && !c.comms_logger.prof_ops.empty())
    return "comms_logger.prof_all is true; set it to false to log only these";
  return {};
}

std::string of_offload(const key_info& key, const offload_section& part) {
  if (key.name() == "device") return {};
  if (part.device == offload_device::none) return "device is none";
  const bool either = key.name() == "ratio" || key.name() == "super_offload";
  return either || part.device == offload_device::nvme ? "" : "device is cpu";
}

}  // namespace

std::string switched_off(const key_info& key, const job_config& c) {
  const key_switch* const by = switch_of(key);
  if (by == nullptr) return {};
  const key_info& row = *key_named(by->key);
  const std::string text = field_text(row, c);
  if (row.default_text.empty()) return text == quoted("") ? fmt::format("there is no {}", row.key) : "";
  return text == row.default_text ? fmt::format("{} is {}", row.key, text) : switched_off(row, c);
}

std::string idle(const key_info& key, const job_config& c) {
  const auto& z = c.zero_optimization;
  const bool stored = c.offload_activations == offload_device::nvme;
  const bool swaps = z.swaps() || stored;
  // true: the key names the folder in which activations are stored
  const bool swap_folder = stored && key.name() == "nvme_path";
  if (key.section() == "zero_optimization.offload_param") {
    if (key.name() == "device") return z.stage == 3 ? "" : "only stage 3 has parameters to offload";
    return swap_folder ? "" : of_offload(key, z.offload_param);
  }
  if (key.section() == "zero_optimization.offload_optimizer") {
    return swap_folder ? "" : of_offload(key, z.offload_optimizer);
  }
  if (std::string why = switched_off(key, c); !why.empty()) return why;
  if (key.section() == "zero_optimization.zenflow") return z.zenflow.enabled ? "" : "there is no section zenflow";
  const bool acts_without_stages =
      key.name() == "activation_checkpoint_interval" || key.name() == "chunks" || key.name() == "profile";
  if (key.section() == "pipeline" && !acts_without_stages)
    return c.pipeline.cuts(c.parallel.pipeline) ? "" : "parallel.pipeline is 1";
  if (key.key == "elasticity.num_gpus_per_node") return c.elasticity.version != 0.2 ? "version is not 0.2" : "";
  const bool is_of_tensor_ranks =
      key.key == "tensor_parallel.tp_overlap_comm" || key.name() == "tp_grain_size" ||
      key.key == "tensor_parallel.partition_config" || key.key == "tensor_parallel.preset_model" ||
      key.key == "tensor_parallel.injection_policy_tuple" || key.key == "tensor_parallel.vocab_parallel_lm_head";
  if (is_of_tensor_ranks) return c.parallel.tensor == 1 ? "parallel.tensor is 1" : "";
  if (key.key == "on_spike.back_steps" || key.key == "on_spike.ahead_steps" || key.key == "on_spike.times_max")
    return c.on_spike.skips() ? "" : "on_spike.action is stop";
  if (key.section() == "aio") return swaps ? "" : "nothing is swapped";
  if (key.key == "cluster.swap_checksums") return swaps ? "" : "nothing is swapped";
  if (key.key == "cluster.swap_gradients") return z.swaps() ? "" : "nothing is swapped";
  if (key.key == "checkpoint.use_node_local_storage")
    return c.cluster.hosts.empty() ? "all ranks write into the one output folder" : "";
  if (key.key == "parallel.shard") return z.stage == 0 ? "stage 0 cuts no states" : "";
  if (key.key == "cluster.offload_activations_units" && c.offload_activations == offload_device::none)
    return "offload_activations is none";
  if (std::string why = of_processes(key, c); !why.empty()) return why;
  if (std::string why = of_records(key, c); !why.empty()) return why;
  if (std::string why = of_loading(key, c.checkpoint.load); !why.empty()) return why;
  if (std::string why = of_stages(key, c); !why.empty()) return why;
  if (std::string why = of_loss_scale(key, c.fp16); !why.empty()) return why;
  if (std::string why = of_teacher(key, c); !why.empty()) return why;
  if (std::string why = of_pruning(key, c.compression.sparse); !why.empty()) return why;
  if (std::string why = of_other_values(key, c); !why.empty()) return why;
  if (std::string why = of_other_types(key, c); !why.empty()) return why;
  return of_numbers(key, c);
}

}  // namespace troupe::config
