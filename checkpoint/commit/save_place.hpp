// The folder to which the files of one save are written until the save is committed, for a process that writes some of
// these files. Does not own the folder: the process that has the checkpoint_save creates, renames and removes it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/native/shard.hpp"
#include "core/error.hpp"
#include "formats/source/shard_header.hpp"

namespace troupe::checkpoint {

struct save_place {
  storage::file_system* files = nullptr;
  std::filesystem::path working{};  ///< existing folder to which the files of the save are written
  storage::digest128 save_id{};     ///< id of the save, which is written into each of its files

  /// Creates the shard file with this number (`shard-00003.bin` for 3); each number may be used once. `file_bytes` is
  /// passed to shard_writer::create().
  [[nodiscard]] core::result<shard_writer> create_shard(uint32_t number, uint64_t file_bytes) const {
    return shard_writer::create(*files, working / formats::shard_file_name(number), save_id, file_bytes);
  }
};

}  // namespace troupe::checkpoint
