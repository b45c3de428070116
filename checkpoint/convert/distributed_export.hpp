// Writes any checkpoint as a folder that torch.distributed.checkpoint loads, with the names of get_state_dict():
// `model` with every weight, `optim` with the states and the groups of the optimizer. Owns the layout; source_reader
// reads the source.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/deepspeed/write/writer.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/progress.hpp"

namespace troupe::checkpoint {

/// Settings of the written folder that cannot be derived from the source.
struct distributed_write_options {
  uint32_t ranks = 1;  ///< number of files; each contains its rows of every tensor, cut as FSDP does
  /// The optimizer's parameter groups, with names as in the source; none: only weights are written.
  std::vector<formats::deepspeed_parameter_group> groups = {};
  std::function<std::string(const std::string&)> name = {};  ///< maps source names to written names; empty: unchanged
  std::map<std::string, std::string> shared = {};            ///< additional tied names: alias -> parameter, as written
  storage::progress_function progress = {};
};

/// Report about the folder that was written.
struct distributed_report {
  uint64_t bytes = 0;  ///< bytes of all written tensors
  size_t tensors = 0, files = 0;
};

/// Returns the approximate number of bytes that the folder needs.
core::result<uint64_t> distributed_bytes(const formats::tensor_source& from, const distributed_write_options& options);

/// Writes into `folder`, which must exist and be empty: `__0_0.distcp` ..., `.metadata` last. Memory: a block and the
/// list of items. Refused, before a byte is written: ranks outside 1 to max_deepspeed_ranks, names that clash, a
/// parameter in two groups or in none.
core::result<distributed_report> write_distributed_folder(const formats::tensor_source& from,
                                                          const std::filesystem::path& folder,
                                                          const distributed_write_options& options);

}  // namespace troupe::checkpoint
