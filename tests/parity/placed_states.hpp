// The placements of states in memory tiers that tests of tiers try, and the models that they train.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "tests/parity/run_result.hpp"

namespace troupe::tests {

/// Small models, because a state needs to span many pages of a file, but not many elements.
inline const std::string gpt2 =
    "model: {model_type: gpt2, n_layer: 3, n_embd: 32, n_head: 4, n_positions: 16, vocab_size: 96, embd_pdrop: 0.1, "
    "attn_pdrop: 0.1, resid_pdrop: 0.1}\n";
inline const std::string frozen_gpt2 = gpt2 + "parameter_groups: [{match: 'wpe|h\\.1\\.', trainable: false}]\n";
inline const std::string llama =
    "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2, "
    "intermediate_size: 64, max_position_embeddings: 16, vocab_size: 96}\n";
inline const settings small_batches = {"train_micro_batch_size_per_gpu=1", "data.sequence_length=12"};

inline const std::string zero = "zero_optimization.", optimizer = zero + "offload_optimizer.",
                         param = zero + "offload_param.";

/// Where a run keeps its optimizer states, parameters and gradients.
struct placed {
  int stage;
  const char *optimizer, *parameters;
  bool gradients;
};
inline constexpr placed places[] = {
    {1, "cpu", "none", false},  {1, "nvme", "none", false}, {1, "nvme", "none", true}, {2, "cpu", "none", false},
    {2, "nvme", "none", false}, {2, "nvme", "none", true},  {3, "none", "cpu", false}, {3, "cpu", "none", false},
    {3, "cpu", "cpu", false},   {3, "nvme", "none", false}, {3, "nvme", "none", true}, {3, "nvme", "cpu", false},
    {3, "nvme", "cpu", true},   {3, "none", "nvme", false}, {3, "none", "nvme", true}, {3, "cpu", "nvme", false},
    {3, "cpu", "nvme", true},   {3, "nvme", "nvme", false}, {3, "nvme", "nvme", true},
};

inline bool is_nvme(const char* device) { return std::string_view(device) == "nvme"; }

/// Returns the settings of a placement, in which {folder} stands for the folder of swap files.
inline settings set_of(const placed& p) {
  settings out = {fmt::format("{}stage={}", zero, p.stage)};
  if (std::string_view(p.optimizer) != "none") out.push_back(optimizer + "device=" + p.optimizer);
  if (is_nvme(p.optimizer)) out.push_back(optimizer + "nvme_path={folder}");
  if (std::string_view(p.parameters) != "none") out.push_back(param + "device=" + p.parameters);
  if (is_nvme(p.parameters)) out.push_back(param + "nvme_path={folder}");
  if (is_nvme(p.optimizer) || is_nvme(p.parameters))
    out.push_back(std::string("cluster.swap_gradients=") + (p.gradients ? "true" : "false"));
  return out;
}

/// Returns the settings of a placement with swap files in the job's folder, and pieces so small that a state has many.
inline settings at(const placed& p, const small_job& job) {
  settings out = set_of(p);
  for (auto& key : out)
    if (const auto at = key.find("{folder}"); at != std::string::npos) key.replace(at, 8, job.folder().path().string());
  return out + settings{zero + "sub_group_size=4100", zero + "reduce_bucket_size=8192", param + "max_in_cpu=9000",
                        zero + "stage3_param_persistence_threshold=100"};
}

}  // namespace troupe::tests
