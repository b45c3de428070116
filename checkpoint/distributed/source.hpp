// Folders of torch.distributed.checkpoint as a source: what FSDP, torchtitan and others save, cut over any mesh. Owns
// what their names mean; the list of chunks is metadata.hpp's, how chunks lie in a tensor chunks.hpp's.
#pragma once

#include <filesystem>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Weights with their own names, whatever dictionary held them (`model` of `{"model": ..., "optim": ...}`); a parameter
/// that has states of the optimizer is a master, `state.NAME.exp_avg` and `state.exp_avg.NAME` are its moments, their
/// `step` the run's. States of parameters that the folder does not name are left out, which the format says. Objects
/// are not read, but for the schedule's position. Each item is opened, none of its numbers read.
core::result<tensor_source> read_distributed_source(const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
