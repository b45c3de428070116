// Reads folders that torch.distributed.checkpoint writes with its HuggingFaceStorageWriter: one safetensors file for
// each rank. The header of a file records, for each of its chunks, the position of the chunk's first element in the
// whole tensor. Owns the names and headers of these files; leaves the meaning of their tensors to source.hpp.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/torch/distributed_metadata.hpp"

namespace troupe::formats {

/// True if the folder has a shard file, such as `shard-00001-model-00001-of-00002.safetensors`.
bool holds_safetensors_shards(const std::filesystem::path& folder);

/// Returns the tensors of all files. The shape of a whole tensor follows from the end of its last chunk. An item's
/// bytes are plain elements. Returns an error that names file and tensor for a header without DCP_SHARDING_INFO or one
/// that lacks the offsets of a tensor's chunk, a missing shard number, a tensor of two types, and two chunks of a
/// tensor that begin at the same element.
core::result<distributed_metadata> read_safetensors_shards(const std::filesystem::path& folder);

}  // namespace troupe::formats
