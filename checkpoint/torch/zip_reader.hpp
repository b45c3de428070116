// The list of a zip archive whose entries are stored as they are, as torch.save writes them. Owns the checked
// list of names and places; the entries' bytes stay in the archive, and their CRC is left to whoever reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::checkpoint {

/// One file inside an archive. The name lies in its list.
struct zip_entry {
  std::string_view name;
  uint64_t begin = 0;  ///< first byte of the data, counted from the archive's first
  uint64_t bytes = 0;
  uint32_t crc32 = 0;  ///< as the directory says; newer writers of torch may put another sum there
};

/// Entries in one archive.
inline constexpr uint64_t max_zip_entries = uint64_t{1} << 24;

/// What an archive lists; movable.
struct zip_list {
  zip_list() = default;
  zip_list(zip_list&&) = default;
  zip_list& operator=(zip_list&&) = default;

  std::vector<zip_entry> entries;  ///< ascending by name
  std::deque<std::string> names;   ///< blocks that the entries' names lie in; they do not move
};

/// Reads the central directory at the end of `archive` (zip64 or not) and each entry's local header, never data
/// descriptors. Refused: entries that are compressed, encrypted or on another disk, that leave the file or overlap, and
/// names that are absolute, hold `..` or a backslash, or come twice. Memory stays below the size of the archive. What
/// the file refuses is an error of kind `io` that names it.
core::result<zip_list> read_zip(const core::source_file& archive);
/// The same of an archive that is bytes [begin, begin + bytes) of a file, which holds them; entries' places are counted
/// from its own first byte.
core::result<zip_list> read_zip(const core::source_file& file, uint64_t begin, uint64_t bytes);
/// The same of an archive in memory.
core::result<zip_list> read_zip(std::span<const std::byte> archive);

/// Null where there is none. `entries` as read_zip() gives them.
const zip_entry* find_entry(std::span<const zip_entry> entries, std::string_view name);

}  // namespace troupe::checkpoint
