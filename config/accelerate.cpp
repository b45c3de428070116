#include "config/accelerate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>

#include "config/document/files.hpp"
#include "config/document/text_form.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace troupe::config {
namespace {

struct spelling {
  /// The key's names in an Accelerate file and in DeepSpeed's form; empty `deepspeed`: DeepSpeed has no such key.
  std::string_view accelerate, deepspeed;
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
    "dynamo_config",
    "dynamo_backend",
    "fp8_config",
    "ipex_config",
    "mpirun_config",
    "command_file",
    "commands",
};

/// Stores a value in `tree` under a dotted name, and creates each section of that name that `tree` lacks.
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

/// FSDP's keys that have no effect in Troupe and cause no warning: they control how modules are wrapped, prefetched and
/// saved, and a run's losses do not depend on them.
constexpr std::string_view fsdp_harmless[] = {
    "auto_wrap_policy",  "transformer_layer_cls_to_wrap", "min_num_params",     "backward_prefetch",
    "forward_prefetch",  "backward_prefetch_policy",      "state_dict_type",    "use_orig_params",
    "limit_all_gathers", "cpu_ram_efficient_loading",     "sync_module_states", "version",
};
/// FSDP's strategies in the order in which Accelerate numbers them, from 1.
constexpr std::array<std::string_view, 5> sharding_strategies{"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD",
                                                              "HYBRID_SHARD_ZERO2"};
/// Values of Accelerate's key distributed_type that mean plain data parallelism over devices of one kind.
constexpr std::string_view data_parallel_types[] = {"NO",         "MULTI_CPU",   "MULTI_GPU", "MULTI_XPU",
                                                    "MULTI_NPU",  "MULTI_MLU",   "MULTI_HPU", "MULTI_MUSA",
                                                    "MULTI_SDAA", "MULTI_NEURON"};

bool says_something(const node& value) {
  return value.kind == node_kind::mapping ? !value.entries.empty() : value.kind != node_kind::null;
}

/// Converts one file of Accelerate to DeepSpeed's keys.
class accelerate_file {
 public:
  accelerate_file(const node& root, reporter& report) : root_(root), report_(report), made_(empty_like(root)) {
    if (const node* type = root.find("distributed_type")) type_ = upper(type->text);
    if (type_.empty() && section_says("fsdp_config")) type_ = "FSDP";
    if (type_.empty()) type_ = section_says("deepspeed_config") ? "DEEPSPEED" : "NO";
    if (const node* fsdp = root.find("fsdp_config"); fsdp != nullptr && fsdp->kind == node_kind::mapping)
      for (const entry& e : fsdp->entries)
        if (e.name == "fsdp_version" || e.name == "version") is_second_ = e.value->text == "2";
  }

  node_ptr read() && {
    for (const entry& e : root_.entries) take(e);
    if (type_ == "FSDP") shard();
    return std::make_shared<const node>(std::move(made_));
  }

 private:
  static std::string upper(std::string text) {
    for (char& c : text)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (const size_t dot = text.rfind('.'); dot != std::string::npos) text.erase(0, dot + 1);
    return text;
  }
  [[nodiscard]] bool section_says(std::string_view name) const {
    const node* at = root_.find(name);
    return at != nullptr && says_something(*at);
  }

  void take(const entry& e) {
    if (e.name == "distributed_type") {
      check_type(e);
    } else if (e.name == "num_processes") {
      put(made_, "parallel.data", e);
    } else if (e.name == "mixed_precision") {
      number_format(e);
    } else if (e.name == "fsdp_config") {
      if (belongs(e, "FSDP") && e.value->kind == node_kind::mapping)
        for (const entry& inner : e.value->entries) take_fsdp(inner);
    } else if (e.name == "deepspeed_config") {
      if (belongs(e, "DEEPSPEED")) made_.entries.push_back(e);
    } else if (e.name == "megatron_lm_config") {
      belongs(e, "MEGATRON_LM");
    } else if (e.name == "parallelism_config") {
      if (says_something(*e.value))
        report_.error(e.at, e.name, "is not read: give parallel.data, parallel.tensor and parallel.context instead");
    } else if (key_in("", e.name) != nullptr) {
      made_.entries.push_back(e);
    } else if (std::ranges::find(launcher_keys, e.name) == std::end(launcher_keys)) {
      report_.warn(e.at, core::shown(e.name), "unknown key of both Accelerate and DeepSpeed");
    }
  }

  /// True if Accelerate uses `section`: the section is not empty, and `distributed_type` of the file is `type`. A
  /// section that is not empty but of another type has no effect, for which this function adds a warning.
  bool belongs(const entry& section, std::string_view type) {
    if (!says_something(*section.value)) return false;
    if (type_ != type) report_.warn(section.at, section.name, fmt::format("no effect: distributed_type is {}", type_));
    return type_ == type;
  }

  void check_type(const entry& e) {
    if (type_ == "FSDP" || type_ == "DEEPSPEED" ||
        std::ranges::find(data_parallel_types, type_) != std::end(data_parallel_types))
      return;
    if (type_ == "MEGATRON_LM")
      report_.error(
          e.at, e.name,
          "MEGATRON_LM is not read: give its degrees as parallel.tensor, parallel.pipeline and parallel.data");
    else
      report_.error(
          e.at, e.name,
          fmt::format("wanted FSDP, DEEPSPEED, MULTI_GPU or another MULTI type, or NO, got {}", core::shown(type_)));
  }

  void number_format(const entry& e) {
    const std::string& format = e.value->text;
    if (format == "bf16" || format == "fp16")
      put(made_, format + ".enabled", {e.name, e.at, make_scalar(node_kind::plain, "true", e.value->at)});
    else if (format != "no" && format != "false" && e.value->kind != node_kind::null)
      report_.error(e.at, e.name, fmt::format("wanted no, fp16 or bf16, got {}", shown(*e.value)));
  }

  void take_fsdp(const entry& e) {
    const std::string_view name = std::string_view(e.name).substr(e.name.starts_with("fsdp_") ? 5 : 0);
    const std::string& value = e.value->text;
    if (name == "sharding_strategy") {
      if (!strategy_ || !is_second_) strategy_ = e;
    } else if (name == "reshard_after_forward") {
      if (!strategy_ || is_second_) strategy_ = e;
    } else if (name == "offload_params") {
      if (is_true(e)) offload_ = e;
    } else if (name == "activation_checkpointing") {
      if (is_true(e)) put(made_, "activation_checkpointing.enabled", plain(e, "true"));
    } else if (name == "version" && value != "1" && value != "2") {
      report_.error(e.at, "fsdp_config." + core::shown(e.name), fmt::format("wanted 1 or 2, got {}", shown(*e.value)));
    } else if (std::ranges::find(fsdp_harmless, name) == std::end(fsdp_harmless)) {
      report_.error(
          e.at, "fsdp_config." + core::shown(e.name),
          "is not read, and may change a run: leave it out, or give what it does as keys of zero_optimization");
    }
  }

  static entry plain(const entry& from, std::string value) {
    return {from.name, from.at, make_scalar(node_kind::plain, std::move(value), from.value->at)};
  }
  bool is_true(const entry& e) {
    const std::string text = upper(e.value->text);
    if (text == "TRUE" || text == "FALSE" || e.value->kind == node_kind::null) return text == "TRUE";
    report_.error(e.at, "fsdp_config." + e.name, fmt::format("wanted true or false, got {}", shown(*e.value)));
    return false;
  }
  [[nodiscard]] uint64_t number_of(std::string_view key) const {
    const node* const at = root_.find(key);
    std::string_view text = at == nullptr ? std::string_view() : at->text;
    return std::max<uint64_t>(core::take_number<uint64_t>(text).value_or(1), 1);
  }

  /// Returns the name of FSDP's sharding strategy; FULL_SHARD if the file has none. Version 1 of FSDP names it, or
  /// numbers it from 1; version 2 has `reshard_after_forward: true` (FULL_SHARD) or `false` (SHARD_GRAD_OP). Any other
  /// text is returned in upper case, and the caller refuses it.
  [[nodiscard]] std::string strategy() const {
    if (!strategy_) return std::string(sharding_strategies[0]);
    const std::string text = upper(strategy_->value->text);
    if (text == "TRUE") return "FULL_SHARD";
    if (text == "FALSE") return "SHARD_GRAD_OP";
    if (is_second_ && strategy_->name.ends_with("reshard_after_forward")) return text;
    if (text.size() == 1 && text[0] >= '1' && text[0] <= '5')
      return std::string(sharding_strategies[static_cast<size_t>(text[0] - '1')]);
    return text;
  }

  void shard() {
    const node* said = root_.find("distributed_type");
    const place at = said == nullptr ? root_.at : said->at;
    const entry from = strategy_ ? *strategy_ : entry{"distributed_type", at, make_scalar(node_kind::plain, type_, at)};
    const std::string name = strategy();
    const std::string key = strategy_ ? "fsdp_config." + from.name : from.name;
    const char* stage = name == "FULL_SHARD" || name == "HYBRID_SHARD" ? "3"
                        : name == "SHARD_GRAD_OP"                      ? "2"
                        : name == "NO_SHARD"                           ? "0"
                                                                       : nullptr;
    if (stage == nullptr) {
      report_.error(
          from.at, key,
          fmt::format("wanted FULL_SHARD, SHARD_GRAD_OP, NO_SHARD or HYBRID_SHARD (1 to 4), or true or false, "
                      "got {}",
                      core::shown(name)));
      return;
    }
    put(made_, "zero_optimization.stage", plain(from, stage));
    if (name == "HYBRID_SHARD") shard_in_machines(from, key);
    if (offload_) offload(*stage);
  }

  /// Translates HYBRID_SHARD, which splits states over the processes of a machine and keeps a copy on each machine, to
  /// the keys of MiCS, which does the same.
  void shard_in_machines(const entry& from, const std::string& key) {
    const uint64_t ranks = number_of("num_processes"), machines = number_of("num_machines");
    if (machines == 1) return;
    if (ranks % machines != 0)
      report_.error(
          from.at, key,
          fmt::format(
              "HYBRID_SHARD requires the same number of processes on each of {} machines, got {} processes in all",
              machines, ranks));
    else
      put(made_, "zero_optimization.mics_shard_size", plain(from, fmt::to_string(ranks / machines)));
  }

  void offload(char stage) {
    if (stage == '0') {
      report_.error(offload_->at, "fsdp_config." + offload_->name, "cannot be combined with NO_SHARD");
      return;
    }
    put(made_, "zero_optimization.offload_optimizer.device", plain(*offload_, "cpu"));
    if (stage == '3') put(made_, "zero_optimization.offload_param.device", plain(*offload_, "cpu"));
  }

  const node& root_;
  reporter& report_;
  node made_;
  std::string type_;
  /// True: FSDP version 2, whose reshard_after_forward takes precedence over the strategy key of version 1.
  bool is_second_ = false;
  std::optional<entry> strategy_, offload_;
};

}  // namespace

bool is_accelerate_file(const node& root) {
  const node* const section = root.find("deepspeed_config");
  const bool is_trimmed = section != nullptr && section->kind == node_kind::mapping &&
                          (root.find("mixed_precision") != nullptr || root.find("num_processes") != nullptr);
  return is_trimmed || root.find("distributed_type") != nullptr || root.find("compute_environment") != nullptr ||
         root.find("fsdp_config") != nullptr;
}

bool is_accelerate_file(const std::filesystem::path& file) {
  const auto text = read_text(file);
  if (!text) return false;
  const node_ptr root = (looks_like_json(*text) ? read_json(*text, 0) : read_yaml(*text, 0)).root;
  return root != nullptr && is_accelerate_file(*root);
}

node_ptr accelerate_root(const node& root, reporter& report) { return accelerate_file(root, report).read(); }

node_ptr accelerate_section(const node& section) {
  node made = empty_like(section);
  // Adds DeepSpeed's own keys before Accelerate's, because put() stores a translated key in a section that may already
  // be among DeepSpeed's keys.
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
