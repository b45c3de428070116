// Where the files of one save are written until its commit: what a process needs that writes some of them. Owns nothing
// of it: the folder is made, renamed and removed by whoever has the checkpoint_save.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/native/shard.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct save_place {
  file_system* files = nullptr;
  std::filesystem::path working{};  ///< the working folder, which exists
  digest128 save_id{};              ///< the save's, which stands in each of its files

  /// The file `shard-00003.bin` of writer 3; each number once. `file_bytes` as shard_writer::create() takes them.
  [[nodiscard]] core::result<shard_writer> create_shard(uint32_t number, uint64_t file_bytes) const {
    return shard_writer::create(*files, working / shard_file_name(number), save_id, file_bytes);
  }
};

}  // namespace troupe::checkpoint
