// Options of loading a checkpoint: what is taken over, and how strictly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/left_out_steps.hpp"
#include "core/model_table.hpp"

namespace troupe::actors {

/// What DeepSpeed's load_checkpoint is told, with the same effects; docs/embedding.md has the table.
struct load_options {
  std::optional<std::string> tag{};  ///< which checkpoint of a folder; none: the one that `latest` names
  /// A file that gives the checkpoint's tensors other names, as docs/checkpoints.md describes it; empty: none.
  std::filesystem::path map{};
  /// Every parameter must be there, and every tensor of the checkpoint wanted. False: parameters that are missing keep
  /// their first values. Another shape is an error in both cases, and so is a checkpoint that has none of them.
  bool load_module_strict = true;
  /// False: moments begin afresh, and master weights are the weights as the forward pass uses them.
  bool load_optimizer_states = true;
  bool load_lr_scheduler_states = true;  ///< false: the schedule begins afresh
  /// Weights alone, as without optimizer states; steps, schedule, loss scale, position in the data and client state
  /// begin afresh.
  bool load_module_only = false;
  /// Instead of names and strictness: the checkpoint's name of a parameter, or nothing for one that keeps its first
  /// values.
  std::function<std::optional<std::string>(const core::parameter_info&)> custom_load_fn{};
  /// False: master weights are the 16-bit weights although fp32 was saved. None: zero_optimization's key of this name.
  std::optional<bool> load_from_fp32_weights{};
  /// Ranks load one after another, each only what it holds; by default all read at once what any of them wants.
  bool pipeline_loading_checkpoint = false;
  /// What a load into swap files holds in memory at a time, or one tensor's elements where these are more: those of all
  /// ranks, of one rank with `pipeline_loading_checkpoint`, since a tensor's digests are those of whole pieces.
  uint64_t swap_batch_bytes = uint64_t{64} << 20;
  /// In a folder of our checkpoints: the newest whole one where the one that `latest` names is damaged.
  bool fallback_to_previous = false;
  /// True: compressed weights (compressed-tensors, blocks of a GGUF file) are read as the values that their codes mean;
  /// `model.dequantise` says the same. False: they are refused.
  bool dequantise = false;
  /// True: a run of another global batch or seed is resumed too, at the checkpoint's sample, with a warning. Another
  /// seed means another order of samples and other dropout masks. False: it is refused.
  bool changed_batch = false, changed_seed = false;
  /// True: a run of other data is resumed too, at the checkpoint's sample of the data as they are now, with a warning
  /// that says how much of what validates may have been trained on. False: it is refused.
  bool changed_data = false;
  /// What the run leaves out from here on, instead of what the checkpoint and `data.skip` say: see session::left_out.
  std::optional<std::vector<core::left_out_steps>> left_out{};
};

/// What session::load took over.
struct loaded_checkpoint {
  std::filesystem::path folder{};     ///< the checkpoint's own, or its file
  std::string client_state = "null";  ///< JSON, as `save` was given it; null's text with load_module_only
};

}  // namespace troupe::actors
