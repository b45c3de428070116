#include "config/accelerate.hpp"

#include <algorithm>
#include <iterator>

namespace troupe::config {
namespace {

struct spelling {
  std::string_view accelerate, deepspeed;  ///< the second empty: says nothing that a run here could follow
};

constexpr spelling in_section[] = {
    {"zero_stage", "zero_optimization.stage"},
    {"offload_optimizer_device", "zero_optimization.offload_optimizer.device"},
    {"offload_optimizer_nvme_path", "zero_optimization.offload_optimizer.nvme_path"},
    {"offload_param_device", "zero_optimization.offload_param.device"},
    {"offload_param_nvme_path", "zero_optimization.offload_param.nvme_path"},
    {"zero3_save_16bit_model", "zero_optimization.stage3_gather_16bit_weights_on_model_save"},
    {"zero3_init_flag", ""},
    {"zero_quantized_weights", "zero_optimization.zero_quantized_weights"},
    {"zero_quantized_gradients", "zero_optimization.zero_quantized_gradients"},
    {"zero_hpz_partition_size", "zero_optimization.zero_hpz_partition_size"},
    {"deepspeed_config_file", ""},
    {"deepspeed_hostfile", ""},
    {"deepspeed_multinode_launcher", ""},
    {"deepspeed_exclusion_filter", ""},
    {"deepspeed_inclusion_filter", ""},
    {"deepspeed_moe_layer_cls_names", ""},
};

constexpr std::string_view launcher_keys[] = {
    "compute_environment",
    "distributed_type",
    "downcast_bf16",
    "debug",
    "enable_cpu_affinity",
    "machine_rank",
    "main_training_function",
    "main_process_ip",
    "main_process_port",
    "num_machines",
    "gpu_ids",
    "rdzv_backend",
    "same_network",
    "use_cpu",
    "tpu_env",
    "tpu_name",
    "tpu_zone",
    "tpu_use_cluster",
    "tpu_use_sudo",
    "fsdp_config",
    "megatron_lm_config",
    "dynamo_config",
    "dynamo_backend",
    "fp8_config",
    "ipex_config",
    "mpirun_config",
    "parallelism_config",
    "command_file",
    "commands",
};

/// Puts a value under a dotted name, into sections that may be there already.
void put(node& tree, std::string_view dotted, const entry& from) {
  const size_t dot = dotted.find('.');
  const std::string name(dotted.substr(0, dot));
  if (dot == std::string_view::npos) {
    tree.entries.push_back({name, from.at, from.value});
    return;
  }
  const auto there = std::ranges::find_if(
      tree.entries, [&](const entry& e) { return e.name == name && e.value->kind == node_kind::mapping; });
  node inner;
  inner.kind = node_kind::mapping;
  inner.at = from.at;
  if (there != tree.entries.end()) inner = *there->value;
  put(inner, dotted.substr(dot + 1), from);
  const auto value = std::make_shared<const node>(std::move(inner));
  if (there != tree.entries.end())
    there->value = value;
  else
    tree.entries.push_back({name, from.at, value});
}

node empty_like(const node& from) {
  node made;
  made.kind = node_kind::mapping;
  made.at = from.at;
  return made;
}

}  // namespace

bool is_accelerate_file(const node& root) {
  return root.find("distributed_type") != nullptr || root.find("compute_environment") != nullptr;
}

node_ptr accelerate_root(const node& root, reporter& report) {
  node made = empty_like(root);
  for (const entry& e : root.entries) {
    if (e.name == "num_processes") {
      put(made, "parallel.data", e);
    } else if (e.name == "mixed_precision") {
      const std::string& format = e.value->text;
      if (format == "bf16" || format == "fp16")
        put(made, format + ".enabled", {e.name, e.at, make_scalar(node_kind::plain, "true", e.value->at)});
      else if (format != "no")
        report.warn(e.at, e.name, "no effect: the formats are bf16 and fp16");
    } else if (key_in("", e.name) != nullptr) {
      made.entries.push_back(e);
    } else if (std::ranges::find(launcher_keys, e.name) == std::end(launcher_keys)) {
      report.warn(e.at, e.name.substr(0, 120), "unknown key, of Accelerate as of DeepSpeed");
    }
  }
  return std::make_shared<const node>(std::move(made));
}

node_ptr accelerate_section(const node& section) {
  node made = empty_like(section);
  // DeepSpeed's own keys first: the others are put into the sections that these open.
  for (const entry& e : section.entries)
    if (std::ranges::find(in_section, e.name, &spelling::accelerate) == std::end(in_section)) made.entries.push_back(e);
  for (const entry& e : section.entries)
    if (const auto* s = std::ranges::find(in_section, e.name, &spelling::accelerate);
        s != std::end(in_section) && !s->deepspeed.empty())
      put(made, s->deepspeed, e);
  return std::make_shared<const node>(std::move(made));
}

node_ptr accelerate_file_named(const node& section) {
  for (const entry& e : section.entries)
    if (e.name == "deepspeed_config_file" && e.value->is_scalar() && e.value->text != "none") return e.value;
  return nullptr;
}

}  // namespace troupe::config
