// Writes any checkpoint as a folder that torch.distributed.checkpoint loads, as get_state_dict() names things: `model`
// with every weight, `optim` with the states and the groups of the optimizer. Owns the layout; what is read of the
// source is source_reader's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/writer.hpp"
#include "checkpoint/files/progress.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// What a source does not say.
struct distributed_write_options {
  uint32_t ranks = 1;  ///< files; each has its rows of every tensor, as FSDP cuts them
  /// The optimizer's, as the source names parameters; none: weights alone are written.
  std::vector<deepspeed_parameter_group> groups = {};
  std::function<std::string(const std::string&)> name =
      {};                                          ///< from a source's name to the written one; empty: the same
  std::map<std::string, std::string> shared = {};  ///< more tied names: alias -> parameter, both as written
  progress_function progress = {};
};

/// What was written.
struct distributed_report {
  uint64_t bytes = 0;  ///< of tensors
  size_t tensors = 0, files = 0;
};

/// Bytes that it needs, by and large.
core::result<uint64_t> distributed_bytes(const tensor_source& from, const distributed_write_options& options);

/// Into `folder`, which is there and empty: `__0_0.distcp` ..., `.metadata` last. Memory: a block and the list of
/// items. Refused, before a byte is written: ranks beyond 1 to max_deepspeed_ranks, names that clash, a parameter in
/// two groups or in none.
core::result<distributed_report> write_distributed_folder(const tensor_source& from,
                                                          const std::filesystem::path& folder,
                                                          const distributed_write_options& options);

}  // namespace troupe::checkpoint
