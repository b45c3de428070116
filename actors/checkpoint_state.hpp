// What a rank's memory gives to a checkpoint. Owns the map from slices of parameters to named tensors; files and commits
// are checkpoint/'s, when it happens is the session's, the way back checkpoint_load.hpp's. Between steps only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/optimizer_groups.hpp"
#include "actors/rank_memory.hpp"
#include "checkpoint/commit.hpp"

namespace troupe::actors {

/// One run of elements that a rank writes; the bytes are the run's own memory.
struct saved_slice {
  std::string name;
  checkpoint::tensor_kind kind = checkpoint::tensor_kind::master;
  std::string moment;  ///< of kind moment
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;  ///< of the whole tensor
  plan::slice range;
  std::span<const std::byte> bytes;
};

/// Master weights and moments of trained parameters, frozen parameters as they are. All ranks' together hold every
/// element once, at any stage: each rank gives its own slice even where it has everything.
std::vector<saved_slice> slices_of(const rank_memory& memory, const optimizer_groups& groups);

/// Writes the ranks' slices as one committed checkpoint of `run.step` below `root`; gives its folder. Errors: io,
/// no_space; the earlier checkpoints stay as they are.
core::result<std::filesystem::path> write_checkpoint(const std::filesystem::path& root,
                                                     const std::vector<std::shared_ptr<rank_memory>>& memory,
                                                     const optimizer_groups& groups, checkpoint::run_state run);

}  // namespace troupe::actors
