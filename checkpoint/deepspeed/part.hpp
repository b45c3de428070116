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
  std::vector<std::string> order;  ///< parameters as the module registers them
  int64_t stage = 0;
  bool has_optimizer = false;  ///< its states are there and have names
};

/// Opens a file and enters it into the list that pieces count by, once.
core::result<torch_archive> open_numbered(std::vector<source_file>& files, const std::filesystem::path& path,
                                          uint32_t& number);

/// Masters and moments that lie elsewhere than in shards, and the stage that wrote them.
struct given_states {
  std::vector<tensor_entry> tensors;
  int64_t stage = 0;
};

/// `model` is file number `number`; `in` tells the rank's other files. Reads the shards that belong to rank `mp`,
/// unless the states are given.
core::result<deepspeed_part> read_deepspeed_part(const deepspeed_files& in, uint32_t mp, const torch_archive& model,
                                                 uint32_t number, std::vector<source_file>& files, source_run& run,
                                                 std::optional<given_states> given = std::nullopt);

}  // namespace troupe::checkpoint
