// The header of a data file of a Troupe checkpoint, and the file's name (docs/formats.md). A source whose files have
// such headers states the save that its files must belong to. Leaves pieces and padding to checkpoint/native/shard.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "formats/tensors/tensor_list.hpp"
#include "storage/files/digest.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {

inline constexpr uint32_t shard_version = 1;
inline constexpr uint64_t shard_header_bytes = piece_alignment_bytes;

struct shard_file {  ///< one data file of a checkpoint's folder
  std::string name;  ///< plain file name: letters, digits, '.', '_' and '-', without '.' at the beginning
  uint64_t bytes = 0;
  bool operator==(const shard_file&) const = default;
};

/// Returns the name of the data file that writer `number` writes: `shard-00003.bin` for 3.
std::string shard_file_name(uint32_t number);
/// Returns the number in a name that shard_file_name() makes; nothing for any other name.
std::optional<uint32_t> shard_number_of(std::string_view name);

/// Returns the header of every data file of the save `save_id`.
std::array<std::byte, shard_header_bytes> make_shard_header(storage::digest128 save_id);

/// Checks a data file before it is read. Refused: a file that is not Troupe's, a newer version, a damaged header,
/// another save, a length other than `expected.bytes`.
core::result<void> check_shard(const storage::input_file& file, const std::filesystem::path& path,
                               const shard_file& expected, storage::digest128 save_id);

}  // namespace troupe::formats
