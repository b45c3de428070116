// Generates random job files that can be loaded: every key with a field may have any value that it accepts, together
// with the keys that its type requires.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "config/keys/key_table.hpp"
#include "tests/config/text.hpp"

namespace troupe::config {

/// Returns a random value that a key accepts, as YAML, or an empty text for value types without random values.
inline std::string some_value(const key_info& row, std::mt19937_64& random) {
  const auto pick = [&](auto& list) { return std::string(list[random() % list.size()]); };
  const double least = row.range.least.value_or(0), most = std::min(row.range.most.value_or(1e6), least + 1e6);
  switch (row.type) {
    case value_type::boolean:
      return random() % 2 == 0 ? "true" : "false";
    case value_type::bytes:
    case value_type::integer:
      return fmt::to_string(static_cast<uint64_t>(least) + random() % (static_cast<uint64_t>(most - least) + 1));
    case value_type::seconds:
    case value_type::number:
      return fmt::format("{:f}", least + (most - least) * (0.1 + 0.8 * static_cast<double>(random() % 1000) / 1000));
    case value_type::dtype:
    case value_type::text:
      return row.choices.names.empty() ? "\"a \\\" \\u00e9: # {\"" : pick(row.choices.names);
    case value_type::path:
      return "some/../path";
    case value_type::number_list:
      return "[0.25, 0.5]";
    default:
      return "";
  }
}

/// Returns true if no rule connects the key with other keys. Connected keys are tested together with their rule.
inline bool is_free(const key_info& row) {
  static const std::set<std::string_view> bound = {
      "gradient_accumulation_steps", "managed_gradient_accumulation", "fp16.enabled", "prescale_gradients",
      "gradient_predivide_factor", "optimizer.type", "optimizer.params.adam_w_mode", "optimizer.params.nesterov",
      "optimizer.params.min_coeff", "scheduler.type", "scheduler.params.cycle_min_lr", "scheduler.params.cycle_min_mom",
      "scheduler.params.cycle_max_mom", "scheduler.params.decay_mom_rate", "scheduler.params.num_warmup_steps",
      "scheduler.params.num_decay_steps", "scheduler.params.num_training_steps", "parallel.ranks",
      "parallel.sharded_norms", "activation_checkpointing.partition_activations", "tensor_parallel.autotp_size",
      "compile.passes", "compile.offload_activation", "compile.offload_opt_states", "compile.offload_parameters",
      "tensor_parallel.tensor_parallel.tp_size", "sequence_parallel_size", "sequence_parallel.size",
      "pipeline.activation_checkpoint_interval", "data.text", "data.chat", "data.instruct", "data.labelled",
      "data.tokenizer", "checkpoint.tag", "checkpoint.load.tag", "checkpoint.load.module_only", "parallel.shard",
      "zero_optimization.mics_shard_size", "zero_optimization.zero_hpz_partition_size", "aio.block_size",
      "cluster.early_updates", "cluster.swap_gradients", "cluster.min_ranks", "cluster.page", "elasticity.enabled",
      "cluster.offload_activations", "cluster.row_tile_bytes", "tensor_parallel.exchange_pieces",
      "activation_checkpointing.cpu_checkpointing", "activation_checkpointing.selective", "on_spike.action",
      "on_spike.min_steps", "evaluation.every_steps", "sample.question",
      // W&B refuses some characters in it.
      "wandb.project",
      // Compression techniques also require groups of modules, which have names.
      "compression_training.weight_quantization.shared_parameters.enabled",
      "compression_training.sparse_pruning.shared_parameters.enabled",
      "compression_training.row_pruning.shared_parameters.enabled",
      "compression_training.head_pruning.shared_parameters.enabled",
      "compression_training.channel_pruning.shared_parameters.enabled",
      "compression_training.activation_quantization.shared_parameters."
      "enabled",
      // A GPU device cannot be combined with many other keys.
      "device",
      // Layer reduction and distillation also require a teacher and names of layers.
      "compression_training.layer_reduction.enabled", "distillation.enabled"};
  const bool places =
      row.key.starts_with("zero_optimization.offload_") || row.key.starts_with("zero_optimization.zenflow");
  return row.has_field() && row.support.only.empty() && row.section() != "model" && row.section() != "data_types" &&
         row.section() != "cuda" && row.section() != "lora" && !row.key.starts_with("train_") && !row.in_list() &&
         !bound.contains(row.key) && !places;
}

/// Returns a list of 1 to 12 mappings for the key `list`, each with the required keys of its items and some others.
inline std::string some_items(const std::string& list, std::mt19937_64& random) {
  std::string out = list + "=[";
  for (size_t n = 1 + random() % 12; n > 0; --n) {
    out += "{";
    bool names_column = false;
    for (const key_info& row : key_table()) {
      if (row.section() != list + "[]" || (!row.required && random() % 2 != 0)) continue;
      std::string value = row.name() == "match" ? "\"[a-z]+\\\\.(bias|weight)$\"" : some_value(row, random);
      names_column |= row.name() == "text_key";
      // The columns of the other forms have fixed names.
      if (row.name() == "form" && names_column) value = random() % 2 == 0 ? "text" : "chat";
      out += std::string(row.name()) + ": " + value + ", ";
    }
    out += "}, ";
  }
  return out + "]";
}

inline std::string one_of(const char* key, std::mt19937_64& random) {
  const auto& choices = key_named(key)->choices.names;
  return std::string(choices[random() % choices.size()]);
}

struct random_job {
  std::string text;
  std::vector<std::string> overrides;
};

inline random_job some_job(std::mt19937_64& random) {
  const std::string optimizer = one_of("optimizer.type", random), scheduler = one_of("scheduler.type", random);
  std::vector<std::string> overrides = {"optimizer={type: " + optimizer + "}"};
  const bool curve = random() % 3 != 0, listed = random() % 2 == 0;
  if (curve) overrides.push_back("scheduler={type: " + scheduler + "}");
  if (listed) overrides.push_back(some_items("data.sources", random));
  if (random() % 2 == 0) overrides.push_back(some_items("parameter_groups", random));
  if (random() % 4 == 0) overrides.emplace_back("data.skip=[{steps: 3-9}, {steps: 12}]");
  for (const key_info& row : key_table()) {
    const bool in_curve = row.section() == "scheduler.params";
    const std::string& type = in_curve ? scheduler : optimizer;
    const bool needed = std::ranges::find(row.types.needed_by, type) != row.types.needed_by.end();
    if (!row.read_by(type) || (in_curve && !curve)) continue;
    if (needed && row.name() == "cycle_min_lr") overrides.push_back(row.key + "=0");
    if (needed && row.name() == "num_training_steps") overrides.push_back(row.key + "=90");
    if (needed && row.name() == "num_decay_steps") overrides.push_back(row.key + "=30");
    if (!is_free(row) || (!needed && random() % 4 != 0)) continue;
    if (const std::string value = some_value(row, random); !value.empty()) overrides.push_back(row.key + "=" + value);
  }
  std::string text = listed ? smallest_with("data: {text: corpus.txt}\n", "") : smallest;
  text.erase(text.find("optimizer:"), text.find("zero_optimization:") - text.find("optimizer:"));
  return {text, overrides};
}

/// Returns the number of files that a test generates: a tenth of TROUPE_MUTATIONS, or 300 if that is not set.
inline size_t random_cases() {
  const char* given = std::getenv("TROUPE_MUTATIONS");
  return given == nullptr ? 300 : std::strtoull(given, nullptr, 10) / 10;
}

}  // namespace troupe::config
