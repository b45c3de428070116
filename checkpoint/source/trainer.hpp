// What transformers' Trainer and Accelerate's save_state() keep beside the weights of a folder: the optimizer's states,
// where the schedule is, the steps. Owns the names of these files and what of them is taken over; the weights are
// hugging_face.hpp's and torch.hpp's, which number is which parameter is numbered_states.hpp's.
#pragma once

#include <filesystem>
#include <optional>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Bytes of a trainer_state.json that is read: it holds the run's log.
inline constexpr uint64_t max_trainer_state_bytes = uint64_t{64} << 20;

/// Adds to the weights of `s.folder`, or to weights and states that FSDP saved in parts, what lies beside them: `optimizer.pt` (Accelerate: `optimizer.bin`) as numbered
/// states, or as moments where it names parameters itself; the step of trainer_state.json, else the optimizer's; the
/// position of `scheduler.pt`. Says of each file there whether it is taken over. As it is where none of these lies
/// there. An optimizer's file that cannot be read is kept as a problem of the states. Refused: a
/// trainer_state.json that says no step.
core::result<tensor_source> with_trainer_states(tensor_source s);

/// The newest of the Trainer's `checkpoint-500`, or Accelerate's `checkpoint_3`, in a folder of them; nothing where
/// there is none.
std::optional<std::filesystem::path> newest_trainer_folder(const std::filesystem::path& root);

}  // namespace troupe::checkpoint
