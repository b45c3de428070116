#include "config/keys/idle.hpp"

#include <fmt/format.h>

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
/// all other keys.
std::string of_processes(const key_info& key, const job_config& c) {
  if (key.section() == "cluster.page_tls" || key.key == "cluster.page_token_file")
    return c.cluster.page.empty() ? "there is no cluster.page" : "";
  const bool serves = !c.cluster.page.empty() && (key.name() == "certificate" || key.name() == "key");
  const bool is_of_hosts = key.key == "cluster.listen" || key.key == "cluster.job" || key.key == "cluster.interface" ||
                           key.key == "cluster.store" || key.section() == "cluster.tls";
  if (is_of_hosts) return c.cluster.hosts.empty() && !serves ? "there are no cluster.hosts" : "";
  if (key.key == "checkpoint.tag_validation") return c.cluster.is_on() ? "" : "cluster.processes is one";
  const bool restarts = key.section() == "cluster.restarts", in_memory = key.section() == "checkpoint.memory";
  const bool recovers = restarts || key.key == "cluster.min_ranks" || key.key == "cluster.spares";
  if (!recovers && !in_memory && key.key != "cluster.lost_after" && key.key != "cluster.on_loss") return {};
  if (!c.cluster.is_on()) return "cluster.processes is one";
  if (recovers && c.cluster.on_loss == loss_policy::stop) return "on_loss is stop";
  return in_memory && key.name() == "copies" && c.checkpoint.memory.every_steps == 0 ? "every_steps is 0" : "";
}

/// Returns the reason why a key of evaluation, of activation checkpointing or of the trace has no effect; empty for all
/// other keys.
std::string of_records(const key_info& key, const job_config& c) {
  if (key.section() == "evaluation" && !c.data.sources.empty() && c.data.validation_fraction == 0)
    return "there is no data.validation_fraction";
  if (key.key == "telemetry.trace_from_step" && c.steps > 0 && c.telemetry.trace_from_step >= c.steps)
    return fmt::format("steps are counted from 0 here, and the run has {}", c.steps);
  return {};
}

std::string of_offload(const key_info& key, const offload_section& part) {
  if (key.name() == "device") return {};
  if (part.device == offload_device::none) return "device is none";
  const bool either = key.name() == "ratio" || key.name() == "super_offload";
  return either || part.device == offload_device::nvme ? "" : "device is cpu";
}

}  // namespace

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
  if (key.section() == "zero_optimization.zenflow") return z.zenflow.enabled ? "" : "there is no section zenflow";
  const bool acts_without_stages =
      key.name() == "activation_checkpoint_interval" || key.name() == "chunks" || key.name() == "profile";
  if (key.section() == "pipeline" && !acts_without_stages)
    return c.pipeline.cuts(c.parallel.pipeline) ? "" : "parallel.pipeline is 1";
  if (key.section() == "elasticity" && key.name() != "enabled")
    return c.elasticity.enabled ? "" : "elasticity.enabled is false";
  if (key.section() == "on_spike" && key.name() != "action") {
    if (c.on_spike.action == spike_action::none) return "on_spike.action is none";
    const bool goes_back = key.name() == "back_steps" || key.name() == "ahead_steps" || key.name() == "times_max";
    return goes_back && !c.on_spike.skips() ? "on_spike.action is stop" : "";
  }
  if (key.section() == "aio") return swaps ? "" : "nothing is swapped";
  if (key.key == "cluster.swap_checksums") return swaps ? "" : "nothing is swapped";
  if (key.key == "cluster.swap_gradients") return z.swaps() ? "" : "nothing is swapped";
  if (key.key == "zero_optimization.pipeline_loading_checkpoint") return z.stage == 3 ? "" : "stage is not 3";
  if (key.key == "zero_optimization.mics_shard_size" || key.key == "zero_optimization.zero_hpz_partition_size")
    return z.stage == 3 ? "" : "stage is not 3";
  if (key.key == "checkpoint.use_node_local_storage")
    return c.cluster.hosts.empty() ? "all ranks write into the one output folder" : "";
  if (key.key == "parallel.shard") return z.stage == 0 ? "stage 0 cuts no states" : "";
  if (key.key == "zero_optimization.ignore_unused_parameters")
    return z.stage == 1 || z.stage == 2 ? "" : "stage is neither 1 nor 2";
  if (key.key == "cluster.offload_activations_units" && c.offload_activations == offload_device::none)
    return "offload_activations is none";
  if (key.key.starts_with("compile.") && key.name() != "deepcompile")
    return c.compile.enabled ? "" : "compile.deepcompile is false";
  if (std::string why = of_processes(key, c); !why.empty()) return why;
  if (std::string why = of_records(key, c); !why.empty()) return why;
  return of_other_types(key, c);
}

}  // namespace troupe::config
