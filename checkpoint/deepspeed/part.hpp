// What one model-parallel rank of a DeepSpeed checkpoint holds, in names that are its module's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/files.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "checkpoint/torch/archive.hpp"

namespace troupe::checkpoint {

struct deepspeed_part {
  std::vector<tensor_entry> tensors;
  std::vector<tied_name> tied;
  std::vector<std::string> order;     ///< parameters as the module registers them
  std::vector<unread_tensor> unread;  ///< of the module, in types that are not read
  int64_t stage = 0;
  bool has_optimizer = false;  ///< its states are there and have names
};

/// A file of a source, with its place in the source's list of files.
struct numbered_archive : torch_archive {
  uint32_t number = 0;
};

/// Opens a file and enters it into `files`, once.
core::result<numbered_archive> open_numbered(std::vector<source_file>& files, const std::filesystem::path& path);

/// Masters and moments that lie elsewhere than in shards, and the stage that wrote them.
struct given_states {
  std::vector<tensor_entry> tensors;
  int64_t stage = 0;
};

/// `model` is the rank's first file, `in` lists the others, which are entered into `files`. Reads the shards that
/// belong to rank `mp`, unless the states are given.
core::result<deepspeed_part> read_deepspeed_part(const deepspeed_files& in, uint32_t mp, const numbered_archive& model,
                                                 std::vector<source_file>& files, source_run& run,
                                                 std::optional<given_states> given = std::nullopt);

}  // namespace troupe::checkpoint
