// Reads the list of a zip archive whose entries are uncompressed, as torch.save writes them. Owns the checked list of
// names and places; the entries' bytes stay in the archive, and the code that reads them compares their CRC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::formats {

/// One file inside a zip archive. zip_list owns the memory of its name.
struct zip_entry {
  std::string_view name;
  uint64_t begin = 0;  ///< offset of the data's first byte from the first byte of the archive
  uint64_t bytes = 0;
  uint32_t crc32 = 0;  ///< CRC-32 in the central directory; 0 if torch.save was configured to compute none
};

/// End of every sentence about bytes of an entry whose CRC-32 is wrong.
inline constexpr std::string_view sum_differs = "do not match their CRC-32";

/// Reads bytes of an entry, from byte `offset` of the entry on.
using entry_bytes = std::function<core::result<void>(uint64_t offset, std::span<std::byte> out)>;
/// Returns the CRC-32 of an entry's bytes, which `read` reads in ascending blocks. The first error of `read` ends the
/// call and is returned.
core::result<uint32_t> sum_of(const zip_entry& entry, const entry_bytes& read);
/// Compares the CRC-32 of an entry, which begins at byte `at` of `file`, with that of its bytes, which `read` reads.
/// Errors: bad_input for other bytes; the first error of `read`.
core::result<void> compare_sum(const zip_entry& entry, const std::string& file, uint64_t at, const entry_bytes& read);

/// Largest number of entries of one archive.
inline constexpr uint64_t max_zip_entries = uint64_t{1} << 24;

/// The entries of a zip archive. Movable, not copyable.
struct zip_list {
  zip_list() = default;
  zip_list(zip_list&&) = default;
  zip_list& operator=(zip_list&&) = default;

  std::vector<zip_entry> entries;  ///< entries of the archive, ascending by name
  std::deque<std::string> names;   ///< blocks of memory with the entries' names
};

/// Reads the central directory at the end of `archive` (zip64 or not) and each entry's local header, never data
/// descriptors. Refused: entries that are compressed, encrypted or on another disk, that leave the file or overlap, and
/// names that are absolute, contain `..` or a backslash, or are repeated. Memory stays below the size of the archive.
/// An error of reading is of kind `io` and names the file.
core::result<zip_list> read_zip(const core::source_file& archive);
/// Reads the list of an archive that is bytes [begin, begin + bytes) of a file, which must contain them; entries'
/// offsets count from the archive's first byte.
core::result<zip_list> read_zip(const core::source_file& file, uint64_t begin, uint64_t bytes);
/// Reads the central directory of an archive that is in memory, and returns its entries.
core::result<zip_list> read_zip(std::span<const std::byte> archive);

/// Returns the entry with that name; null if there is none. `entries` must be sorted as read_zip() returns them.
const zip_entry* find_entry(std::span<const zip_entry> entries, std::string_view name);

}  // namespace troupe::formats
