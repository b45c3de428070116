// Options of loading a checkpoint: which parts are loaded, and how strictly their names and shapes are checked.
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

/// Options of DeepSpeed's load_checkpoint, with the same effects; docs/embedding.md has the table.
struct load_options {
  std::optional<std::string> tag{};  ///< name of the checkpoint within a folder; none: the one that `latest` names
  /// File with a map from names of the checkpoint's tensors to names of the model's parameters (docs/checkpoints.md);
  /// empty: names are not mapped.
  std::filesystem::path map{};
  /// True: every parameter must be in the checkpoint, and every tensor of the checkpoint must belong to a parameter.
  /// False: parameters that are missing keep their initial values, and unknown tensors are ignored. In both cases a
  /// parameter of another shape is an error, and so is a checkpoint that has no parameter of the model.
  bool load_module_strict = true;
  /// False: moments restart at their initial values, and master weights are copied from the weights that the forward
  /// pass uses.
  bool load_optimizer_states = true;
  bool load_lr_scheduler_states = true;  ///< false: the learning-rate schedule restarts
  /// True: only weights are loaded. Moments, number of steps, learning-rate schedule, loss scale, position in the data
  /// and client state restart.
  bool load_module_only = false;
  /// Returns the name in the checkpoint of a parameter, or nothing if the parameter keeps its first values. If the
  /// function is given, it replaces the matching of names, and `load_module_strict` has no effect.
  std::function<std::optional<std::string>(const core::parameter_info&)> custom_load_fn{};
  /// False: master weights are copied from the checkpoint's 16-bit weights even if it has fp32 weights. None: the key
  /// load_from_fp32_weights of zero_optimization decides.
  std::optional<bool> load_from_fp32_weights{};
  /// True: ranks load one after another, each only the elements that it holds. False: all ranks load at once, and
  /// elements that several ranks hold are read once.
  bool pipeline_loading_checkpoint = false;
  /// Number of bytes of states that a load into swap files holds in memory at a time. A single tensor may exceed this
  /// limit: all elements of it that ranks need (with `pipeline_loading_checkpoint`, that one rank needs) are in memory
  /// together, because a digest covers a whole piece of a tensor.
  uint64_t swap_batch_bytes = uint64_t{64} << 20;
  /// True: if the newest checkpoint of a folder is damaged, loads the newest undamaged one of the folder instead, in
  /// folders of every format that has several checkpoints (`latest` of Troupe and DeepSpeed, numbered folders). All
  /// digests and CRC-32 are compared before the load; if bytes differ only while they are loaded, the load of a run of
  /// one process begins anew, and a run of several ends with that error.
  /// No effect with `tag`, and on checkpoints that the disks of several machines hold.
  bool fallback_to_previous = false;
  /// True: compressed weights (compressed-tensors, blocks of a GGUF file) are read as the numbers that their codes
  /// represent; the key `model.dequantise` has the same effect. False: a checkpoint with such weights is refused.
  bool dequantise = false;
  /// changed_batch, changed_seed: true permits another global batch or seed than the checkpoint's run had; the run then
  /// continues at the checkpoint's sample, with a warning. Another seed means another order of samples and other
  /// dropout masks. False: a changed value is refused.
  bool changed_batch = false, changed_seed = false;
  /// True: permits other data than those of the checkpoint's run; the run then continues at the same sample number of
  /// its own data, with a warning that says how many tokens of the validation part may have been trained on. False:
  /// changed data are refused.
  bool changed_data = false;
  /// Decisions on samples that the run leaves out from now on (session::left_out). None: the checkpoint's decisions and
  /// `data.skip` apply.
  std::optional<std::vector<core::left_out_steps>> left_out{};
};

/// The result of session::load.
struct loaded_checkpoint {
  std::filesystem::path folder{};  ///< folder of the loaded checkpoint, or its file if it is one file
  /// JSON text that the host program passed to `save`; the text null with load_module_only
  std::string client_state = "null";
};

}  // namespace troupe::actors
