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
  /// A file that maps the names of the checkpoint's tensors to other names (docs/checkpoints.md); empty: none.
  std::filesystem::path map{};
  /// True: every parameter must be in the checkpoint, and every tensor of the checkpoint must have a parameter. False:
  /// missing parameters keep their first values. In both cases a parameter of another shape is an error, and so is a
  /// checkpoint that has no parameter of the model.
  bool load_module_strict = true;
  /// False: moments restart at their initial values, and master weights are copied from the weights that the forward
  /// pass uses.
  bool load_optimizer_states = true;
  bool load_lr_scheduler_states = true;  ///< false: the learning-rate schedule restarts
  /// True: only weights are loaded, as without optimizer states; steps, schedule, loss scale, position in the data and
  /// client state restart.
  bool load_module_only = false;
  /// Returns the checkpoint's name of a parameter, or nothing if that parameter keeps its first values. Replaces the
  /// matching by names and `load_module_strict`.
  std::function<std::optional<std::string>(const core::parameter_info&)> custom_load_fn{};
  /// False: master weights are the 16-bit weights even if fp32 weights were saved. None: zero_optimization's key of
  /// this name decides.
  std::optional<bool> load_from_fp32_weights{};
  /// True: ranks load one after another, each only its own parts. False: all ranks read at once, and shared parts are
  /// read once.
  bool pipeline_loading_checkpoint = false;
  /// Limit of the bytes that a load into swap files holds in memory at a time. A single tensor may exceed the limit:
  /// the elements that all ranks need of it are in memory together, because a digest covers a whole piece; with
  /// `pipeline_loading_checkpoint`, the elements that one rank needs.
  uint64_t swap_batch_bytes = uint64_t{64} << 20;
  /// True: if the checkpoint that `latest` names is damaged, loads the newest whole one of the folder instead. Applies
  /// to folders of Troupe's checkpoints.
  bool fallback_to_previous = false;
  /// True: compressed weights (compressed-tensors, blocks of a GGUF file) are read as the values that their codes
  /// represent; `model.dequantise` has the same effect. False: they are refused.
  bool dequantise = false;
  /// True: a run with another global batch or seed is resumed too, at the checkpoint's sample, with a warning. Another
  /// seed means another order of samples and other dropout masks. False: such a run is refused.
  bool changed_batch = false, changed_seed = false;
  /// True: a run with other data is resumed too, at the checkpoint's sample of the current data, with a warning that
  /// says how much of the validation part may have been trained on. False: such a run is refused.
  bool changed_data = false;
  /// Samples that the run leaves out from here on, in place of those of the checkpoint and of `data.skip`
  /// (session::left_out).
  std::optional<std::vector<core::left_out_steps>> left_out{};
};

/// The result of session::load.
struct loaded_checkpoint {
  std::filesystem::path folder{};  ///< folder of the checkpoint, or its file
  /// JSON of the host program that was passed to `save`; the text null with load_module_only.
  std::string client_state = "null";
};

}  // namespace troupe::actors
