#include "config/rules/resolve.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/keys/values.hpp"
#include "families/all_families.hpp"

namespace troupe::config {
namespace {

class rules : key_rules {
 public:
  rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why)
      : key_rules(given, config, report, derived), why_(why) {}

  void all() {
    if (why_ != purpose::deepspeed) {
      if (why_ == purpose::job) model();
      if (why_ == purpose::host_job) no_model();
      required();
      batch();
    } else {
      batch_of_any_world();
    }
    precision();
    zero();
    loading();
    tags();
  }

 private:
  void required() {
    for (const key_info& row : key_table())
      if (row.required && !row.in_list() && value_of(row.key) == nullptr && !given_.was_refused(row.key) &&
          !given_.was_refused(row.section()))
        error(row.key, fmt::format("wanted {}, got nothing: the key is required", wanted(row)));
  }

  void model() {
    if (given_.was_refused("model")) return;
    std::vector<const setting*> inline_keys;
    for (const auto& [key, s] : given_.given)
      if (key.starts_with("model.") && key != "model.path" && key != "model.dequantise" && key != "model.ignore_keys")
        inline_keys.push_back(&s);
    if (value_of("model.path") != nullptr) {
      if (!inline_keys.empty())
        error("model.path",
              fmt::format("wanted either path or the model's own keys, got {} too", inline_keys[0]->row->key));
      return;
    }
    const setting* type = value_of("model.model_type");
    if (type == nullptr) {
      if (!given_.was_refused("model.model_type") && !given_.was_refused("model.path"))
        error("model.model_type",
              fmt::format("wanted {} (or model.path), got nothing: the key is required", families::names_joined()));
      return;
    }
    for (const setting* s : inline_keys)
      if (const auto& of = s->row->types.families; !of.empty() && std::ranges::find(of, type->value->text) == of.end())
        report_.error(
            s->name_at, s->row->key,
            fmt::format("a key of the {} family, but model_type is {}", fmt::join(of, " or "), type->value->text));
  }

  void no_model() {
    for (const auto& [key, s] : given_.given)
      if (key.starts_with("model.") || (key.starts_with("data.") && key != "data.prefetch_batches"))
        error(key, "remove this key: the host program provides the model and its batches");
  }

  void batch() {
    if (given_.was_refused("elasticity.enabled")) return;
    if (config_.elasticity.enabled) return elasticity_rules(given_, config_, report_, derived_, true);
    constexpr std::string_view keys[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                         "gradient_accumulation_steps"};
    for (const std::string_view key : keys)
      if (given_.was_refused(key)) return;
    if (given_.was_refused("parallel.data") || given_.was_refused("parallel")) return;
    const auto sizes = complete(
        {config_.train_batch_size, config_.train_micro_batch_size_per_gpu, config_.gradient_accumulation_steps},
        config_.parallel.data);
    if (!sizes) {
      std::string_view at = keys[0];
      for (const std::string_view key : keys)
        if (value_of(key) != nullptr) {
          at = key;
          break;
        }
      error(at, sizes.error());
      return;
    }
    config_.train_batch_size = sizes->train;
    config_.train_micro_batch_size_per_gpu = sizes->micro;
    config_.gradient_accumulation_steps = sizes->accumulation;
    for (const std::string_view key : keys)
      if (value_of(key) == nullptr) derived_.emplace(key, "derived");
  }

  /// Checks the batch sizes of a plain DeepSpeed file, which does not state the number of ranks; sizes that depend on
  /// that number are not derived.
  void batch_of_any_world() {
    if (given_.was_refused("elasticity.enabled")) return;
    if (config_.elasticity.enabled && value_of("parallel.data") == nullptr)
      return elasticity_rules(given_, config_, report_, derived_, false);
    for (const std::string_view key :
         {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "parallel.data"})
      if (given_.was_refused(key)) return;
    if (value_of("parallel.data") != nullptr &&
        (config_.elasticity.enabled || (config_.train_batch_size | config_.train_micro_batch_size_per_gpu) != 0))
      return batch();
    const uint64_t all = config_.train_batch_size;
    const uint64_t part = std::max<uint64_t>(config_.train_micro_batch_size_per_gpu, 1) *
                          std::max<uint64_t>(config_.gradient_accumulation_steps, 1);
    if (all == 0 || all % part == 0) return;
    error("train_batch_size",
          fmt::format("wanted a multiple of micro-batch x accumulation steps, which are {}, got {}", part, all));
  }

  void precision() {
    if (config_.fp16.enabled && config_.bf16.enabled)
      error("bf16.enabled", "fp16.enabled and bf16.enabled are both true: wanted one of them");
    const auto& fp16 = config_.fp16;
    if (fp16.enabled && fp16.loss_scale == 0) {
      if (fp16.loss_scale_window == 0)
        error("fp16.loss_scale_window", "wanted an integer of at least 1 with a dynamic loss scale, got 0");
      if (fp16.min_loss_scale == 0)
        error("fp16.min_loss_scale", "wanted a number above 0 with a dynamic loss scale, got 0");
    }
    const setting* type = value_of("data_types.param_dtype");
    if (type == nullptr) return;
    const std::string_view mode = config_.fp16.enabled ? "fp16" : config_.bf16.enabled ? "bf16" : "fp32";
    const std::string& text = type->value->text;
    if (text == "fp64" ? mode != "fp32" : text != mode)
      error("data_types.param_dtype",
            fmt::format("wanted {}, as set by the fp16 and bf16 sections, got {}", mode, text));
    if (text != "fp64") return;
    for (const char* key : {"communication_data_type", "data_types.grad_accum_dtype"})
      if (value_of(key) != nullptr)
        error(key, fmt::format("wanted no value with data_types.param_dtype: fp64, got {}; remove this key",
                               value_of(key)->value->text));
  }

  void zero() {
    auto& z = config_.zero_optimization;
    if (value_of("zero_optimization.overlap_comm") == nullptr)
      derived_.emplace("zero_optimization.overlap_comm", "derived");
    if (constexpr std::string_view key = "zero_optimization.pipeline_loading_checkpoint";
        z.pipeline_loading_checkpoint && z.stage != 3)
      warn(key, "no effect: only stage 3 loads rank by rank");
    shard_groups();
    near_copies();
    if (z.stage >= 2 && z.reduce_scatter) {
      const std::string with = fmt::format(
          "with stage {} and reduce_scatter, which divide before they sum (or set reduce_scatter: false)", z.stage);
      if (config_.prescale_gradients) error("prescale_gradients", fmt::format("wanted false {}, got true", with));
      if (config_.gradient_predivide_factor != 1.0)
        error("gradient_predivide_factor", fmt::format("wanted 1 {}, got {}", with, config_.gradient_predivide_factor));
    }
  }

  /// Sets `parallel.shard`, the number of neighbouring data ranks over which states are split, also from DeepSpeed's
  /// `mics_shard_size`, which acts only at stage 3.
  void shard_groups() {
    constexpr std::string_view own = "parallel.shard", mics = "zero_optimization.mics_shard_size";
    for (const std::string_view key :
         {own, mics, std::string_view("parallel.data"), std::string_view("parallel"),
          std::string_view("zero_optimization"), std::string_view("zero_optimization.stage")})
      if (given_.was_refused(key)) return;
    auto& p = config_.parallel;
    const auto& z = config_.zero_optimization;
    std::string_view from = own;
    if (z.mics_shard_size > 0 && z.stage != 3) {
      report_.warn(given_.where(mics), std::string(mics),
                   "no effect: it acts only at stage 3; set parallel.shard for other stages");
    } else if (z.mics_shard_size > 0) {
      if (p.shard > 0 && p.shard != z.mics_shard_size)
        return error(own, fmt::format("wanted {}, the value of mics_shard_size, got {}", z.mics_shard_size, p.shard));
      if (p.shard == 0) derived_.emplace(own, "derived");
      p.shard = static_cast<uint32_t>(std::min<int64_t>(z.mics_shard_size, UINT32_MAX));
      if (value_of(own) == nullptr) from = mics;
    }
    if (p.shard == 0) return;
    if (z.stage == 0) report_.warn(given_.where(own), std::string(own), "no effect: stage 0 cuts no states");
    if (!of_any_world() && p.data % p.shard != 0)
      error(from, fmt::format("wanted a divisor of the {} ranks of parallel.data, got {}", p.data, p.shard));
  }

  /// True for a plain DeepSpeed file, which does not state the number of ranks that it is used with.
  [[nodiscard]] bool of_any_world() const { return why_ == purpose::deepspeed && value_of("parallel.data") == nullptr; }

  /// Checks the second copy of parameters (hpZ), which is spread over neighbouring ranks of a shard group.
  void near_copies() {
    constexpr std::string_view key = "zero_optimization.zero_hpz_partition_size";
    const auto& z = config_.zero_optimization;
    if (z.zero_hpz_partition_size < 2) return;
    for (const std::string_view other :
         {std::string_view("parallel"), std::string_view("parallel.data"), std::string_view("parallel.shard"),
          std::string_view("zero_optimization.stage")})
      if (given_.was_refused(other)) return;
    if (z.stage != 3) return warn(key, "no effect: only stage 3 gathers");
    if (z.offload_param.device == offload_device::nvme)
      error(key, fmt::format("wanted 1 with offload_param.device: nvme, because the second copy of the parameters "
                             "would be in memory, got {}",
                             z.zero_hpz_partition_size));
    const uint64_t ranks = config_.parallel.shard == 0 ? config_.parallel.data : config_.parallel.shard;
    if (!of_any_world() && ranks % z.zero_hpz_partition_size != 0)
      error(key, fmt::format("wanted a divisor of the {} ranks that parameters are sharded over, got {}", ranks,
                             z.zero_hpz_partition_size));
  }

  void tags() {
    const auto& c = config_.checkpoint;
    if (c.tag.empty()) return;
    constexpr std::string_view step = "{step}";
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    bool plain = c.tag.front() != '.' && c.tag.front() != '-';
    for (std::string_view rest = c.tag; !rest.empty();) {
      const bool place = rest.starts_with(step);
      plain = plain && (place || letters.find(rest.front()) != std::string_view::npos);
      rest.remove_prefix(place ? step.size() : 1);
    }
    if (!plain) {
      error("checkpoint.tag",
            fmt::format("wanted letters, digits, '.', '_', '-' and {{step}}, not beginning with '.' or '-', got {}",
                        c.tag));
      config_.checkpoint.tag.clear();  // so that the rules of apps/ report no second error for the same tag
    }
    for (const auto& [key, value] :
         {std::pair("checkpoint.keep_last", c.keep_last), {"checkpoint.keep_every", c.keep_every}})
      if (value > 0)
        error(key,
              fmt::format("cannot be combined with checkpoint.tag, because only checkpoints without a tag are counted "
                          "and removed; set it to 0, got {}",
                          value));
  }

  void loading() {
    if (!config_.checkpoint.load.path.empty() || given_.was_refused("checkpoint.load.path")) return;
    for (const char* key : {"checkpoint.load.tag", "checkpoint.load.module_only"})
      if (const setting* s = value_of(key); s != nullptr && !is_default(*s->row, *s->value))
        error(key, fmt::format("requires checkpoint.load.path, which states where to load from, got {} without it",
                               s->value->text));
  }

  purpose why_;
};

}  // namespace

void resolve(const settings& given, job_config& config, reporter& report, origins& derived, purpose why) {
  parallel_rules(given, config, report, derived, why);
  if (why != purpose::deepspeed) cluster_rules(given, config, report, derived);
  compile_rules(given, config, report, derived);
  norm_rules(given, config, report, derived);
  rules(given, config, report, derived, why).all();
  training_rules(given, config, report, derived, why);
  offload_rules(given, config, report, derived, why);
  compression_rules(given, config, report, why);
  pruning_rules(given, config, report);
  lora_rules(given, config, report, why);
  monitor_rules(given, config, report);
  skip_rules(given, config, report, why);
  count_rules(given, config, report, why);
  device_rules(given, config, report, why);
  deepspeed_rules(given, report);
  if (why != purpose::deepspeed) idle_rules(given, config, report);
}

}  // namespace troupe::config
