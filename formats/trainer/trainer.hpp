// Reads the files that transformers' Trainer and Accelerate's save_state() write next to the weights of a folder: the
// optimizer's states, the position of the schedule, the steps. Owns the names of these files and which of their
// contents are imported; leaves the weights to hugging_face.hpp and torch.hpp, and which number is which parameter to
// numbered_states.hpp.
#pragma once

#include <filesystem>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Largest trainer_state.json that is read, in bytes; it contains the run's log.
inline constexpr uint64_t max_trainer_state_bytes = uint64_t{64} << 20;

/// Adds the contents of the other files of `s.folder` to its weights, or to weights and states that FSDP saved in
/// parts: `optimizer.pt` (Accelerate: `optimizer.bin`) as moments, or as numbered states if it numbers parameters and
/// name_states() cannot name them by the order of parameters in `s`; the step of trainer_state.json, else the
/// optimizer's, else the schedule's; the position of `scheduler.pt`. Adds a remark for each such file that says whether
/// its contents are imported. Returns `s` unchanged if there is no such file. If the optimizer's file cannot be read,
/// numbered_states::problem contains the error. Refused: a trainer_state.json without a step, and one with fewer steps
/// than the optimizer counts updates.
core::result<tensor_source> with_trainer_states(tensor_source s);

/// Adds a remark to a checkpoint with steps of its own, such as DeepSpeed's, if a trainer_state.json in the folder
/// above states another step.
void say_other_trainer_step(tensor_source& s);

/// True if `folder` has the optimizer's file of Trainer or Accelerate, judged by its name.
bool has_optimizer_file(const std::filesystem::path& folder);

}  // namespace troupe::formats
