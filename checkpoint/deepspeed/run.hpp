// What DeepSpeed's files say of the run that wrote them: counters, schedule, loss scale, configuration, client state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/source/tensor_source.hpp"
#include "checkpoint/torch/archive.hpp"

namespace troupe::checkpoint {

/// From a model-state file: `global_steps`, `skipped_steps`, `global_samples`; the schedule's position as the updates
/// that it has counted (DeepSpeed's `last_batch_iteration` + 1, torch's `last_epoch`); `ds_config` as JSON; every key
/// that is not DeepSpeed's own and holds plain values as the client's JSON object, `null` where there is none.
source_run run_of_model_file(const torch_archive& file);

/// The loss scale of an optimizer's state dict, where it is dynamic or not 1. `state` is a dict with `loss_scaler`
/// (ZeRO) or `cur_scale` (stage 0).
std::optional<loss_scale_record> loss_scale_of(const torch_archive& file, pickle_ref state);

}  // namespace troupe::checkpoint
