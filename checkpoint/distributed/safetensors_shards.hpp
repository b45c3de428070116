// Folders that torch.distributed.checkpoint writes by its HuggingFaceStorageWriter: a safetensors file for each rank,
// whose header says at which element of the whole tensor each of its tensors begins. Owns these files' names and
// headers; what their tensors are to a model is source.hpp's.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/torch/distributed_metadata.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Whether the folder has such a file: `shard-00001-model-00001-of-00002.safetensors`.
bool holds_safetensors_shards(const std::filesystem::path& folder);

/// The tensors of all of them: a whole tensor ends where its last chunk does. An item's bytes are the elements
/// themselves. Refused, with the file and the tensor: a header without DCP_SHARDING_INFO or one that does not say all
/// tensors' places, a number of a shard that is missing, a tensor of two types, two chunks that begin at one element.
core::result<distributed_metadata> read_safetensors_shards(const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
