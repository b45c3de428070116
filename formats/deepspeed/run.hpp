// Reads the state of a run from DeepSpeed's files: counters, schedule, loss scale, configuration, client state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/source/tensor_source.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {

/// Reads a model-state file: `global_steps`, `skipped_steps`, `global_samples`; the position of the schedule as the
/// number of updates that it has counted (DeepSpeed's `last_batch_iteration` + 1, torch's `last_epoch`); `ds_config` as
/// JSON; and as the client's JSON object every key with plain values that is not DeepSpeed's own, `null` if there is
/// none.
source_run run_of_model_file(const torch_archive& file);

/// Returns `global_steps` of a model-state file; nothing if it has none.
std::optional<uint64_t> global_steps_of(const torch_archive& file);

/// Returns the loss scale of an optimizer's state dict if it is dynamic or not 1, else nothing. `state` is a dict with
/// `loss_scaler` (ZeRO) or `cur_scale` (stage 0).
std::optional<loss_scale_record> loss_scale_of(const torch_archive& file, pickle_ref state);

}  // namespace troupe::formats
