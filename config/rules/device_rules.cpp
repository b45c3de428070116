// Refuses settings that a job on a GPU does not support yet, each by its key.
#include <fmt/format.h>

#include "config/keys/values.hpp"
#include "config/rules/resolve.hpp"

namespace troupe::config {

void device_rules(const settings& given, const job_config& config, reporter& report, purpose why) {
  if (config.device == core::device_kind::cpu) {
    for (const key_info& row : key_table())
      if (row.section() == "cuda" && field_text(row, config) != row.default_text)
        report.error(given.where(row.key), row.key, "requires device: cuda, got device: cpu");
    return;
  }
  const auto refuse = [&](const std::string& key, std::string_view wanted) {
    report.error(given.where(key), key, fmt::format("device: cuda supports only {} for now", wanted));
  };
  if (why == purpose::host_job) refuse("device", "a model of Troupe's own families, not a host program's modules,");
  if (config.data_types.reference_fp64) refuse("data_types.reference_fp64", "fp32, bf16 or fp16");
  if (config.compression.any()) refuse("compression_training", "a model without compression");
  if (config.loss.label_smoothing != 0) refuse("loss.label_smoothing", "a loss without label smoothing");
  if (config.loss.z_loss != 0) refuse("loss.z_loss", "a loss without z-loss");
  if (config.ema.given && config.zero_optimization.offload_optimizer.device == offload_device::none)
    refuse("ema",
           "an average of weights whose states are on the host (zero_optimization.offload_optimizer.device: cpu)");
  if (config.lora.given) refuse("lora", "a model without adapters");
  if (config.distillation.enabled) refuse("distillation.enabled", "training without a teacher");
  if (config.zero_optimization.zenflow.enabled) refuse("zero_optimization.zenflow", "updates without ZenFlow");
  const auto& offload = config.zero_optimization.offload_optimizer;
  if (offload.super_offload)
    refuse("zero_optimization.offload_optimizer.super_offload", "updates after the vote (false)");
  if (offload.device == offload_device::cpu && offload.ratio < 1)
    refuse("zero_optimization.offload_optimizer.ratio", "all states of an offloaded optimizer on the host (1)");
  if (config.early_updates == early_choice::always) refuse("cluster.early_updates", "false or auto");
  if (config.offload_activations != offload_device::none) refuse("cluster.offload_activations", "none");
  if (config.cluster.is_on()) refuse("cluster.processes", "one process");
  if (config.cuda.devices.size() > 1) refuse("cuda.devices", "one index");
  const auto one = [&](const char* key, uint64_t degree) {
    if (degree > 1) refuse(key, "1");
  };
  one("parallel.pipeline", config.parallel.pipeline);
  one("parallel.tensor", config.parallel.tensor);
  one("parallel.sequence", config.parallel.sequence);
  one("parallel.context", config.parallel.context);
}

}  // namespace troupe::config
