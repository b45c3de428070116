// Writes a zip archive of uncompressed entries in one pass, in torch.save's layout: data at multiples of 64 bytes,
// sizes and CRC-32 after each entry, zip64 records in the places and form of torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "storage/files/streamed_file.hpp"

namespace troupe::formats {

/// Alignment of an entry's first byte in torch's archives.
inline constexpr uint64_t zip_alignment_bytes = 64;

/// A zip archive that is being written. Destruction without commit() removes the archive and leaves the old file.
class zip_writer {
 public:
  static core::result<zip_writer> create(const std::filesystem::path& path);
  /// Returns a writer that appends to the content of `to`, which must outlive it; the writer does not commit `to`.
  static zip_writer behind(storage::streamed_file& to) { return zip_writer(&to); }

  /// Begins the next entry, of exactly `bytes` bytes, after the last one, which must be complete. Names must be
  /// relative, shorter than 64 KiB and not repeated.
  core::result<void> begin(std::string_view name, uint64_t bytes);
  /// Appends bytes to the entry that begin() opened; refuses more bytes than begin() announced.
  core::result<void> write(std::span<const std::byte> bytes);
  /// Writes an entry as a whole: calls begin() and write().
  core::result<void> add(std::string_view name, std::span<const std::byte> bytes);

  /// Writes the directory, after which the archive is complete and has `bytes()` bytes.
  core::result<void> finish();
  [[nodiscard]] uint64_t bytes() const { return at_; }
  /// Calls finish(), then syncs the file and renames it to its final name; only for a writer with its own file.
  core::result<void> commit();

 private:
  struct written {
    std::string name;
    uint64_t header, bytes;
    uint32_t crc32;
  };
  explicit zip_writer(storage::streamed_file file) : own_(std::move(file)) {}
  explicit zip_writer(storage::streamed_file* to) : to_(to) {}
  core::result<void> put(std::string_view bytes);
  core::result<void> end_entry();

  [[nodiscard]] storage::streamed_file& file() { return to_ != nullptr ? *to_ : *own_; }

  std::optional<storage::streamed_file> own_;
  storage::streamed_file* to_ = nullptr;  ///< file to which a writer from behind() appends; the caller owns the file
  uint64_t at_ = 0;                       ///< number of bytes written
  uint64_t left_ = 0;                     ///< number of bytes that the open entry still lacks
  bool open_ = false;
  std::vector<written> entries_;
};

}  // namespace troupe::formats
