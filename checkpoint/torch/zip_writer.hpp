// Writes a zip archive of stored entries in one pass, laid out as torch.save lays it out: data at multiples of
// 64 bytes, sizes and CRC-32 behind each entry, zip64 records where and as torch has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/files/streamed_file.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Where torch puts an entry's first byte.
inline constexpr uint64_t zip_alignment_bytes = 64;

/// One archive on its way; without commit() nothing remains and the old file stays.
class zip_writer {
 public:
  static core::result<zip_writer> create(const std::filesystem::path& path);
  /// Behind what `to` holds already, which outlives this object and is not committed by it.
  static zip_writer behind(streamed_file& to) { return zip_writer(&to); }

  /// Opens the next entry, of exactly `bytes` bytes, behind the last one, which must be complete. Names are
  /// relative, below 64 KiB, and come once.
  core::result<void> begin(std::string_view name, uint64_t bytes);
  /// Appends to the open entry; more than it was opened with is refused.
  core::result<void> write(std::span<const std::byte> bytes);
  /// An entry at once.
  core::result<void> add(std::string_view name, std::span<const std::byte> bytes);

  /// Writes the directory: the archive is whole, of `bytes()` bytes.
  core::result<void> finish();
  [[nodiscard]] uint64_t bytes() const { return at_; }
  /// finish(), then syncs and gives its own file its name.
  core::result<void> commit();

 private:
  struct written {
    std::string name;
    uint64_t header, bytes;
    uint32_t crc32;
  };
  explicit zip_writer(streamed_file file) : own_(std::move(file)) {}
  explicit zip_writer(streamed_file* to) : to_(to) {}
  core::result<void> put(std::string_view bytes);
  core::result<void> end_entry();

  [[nodiscard]] streamed_file& file() { return to_ != nullptr ? *to_ : *own_; }

  std::optional<streamed_file> own_;
  streamed_file* to_ = nullptr;  ///< another's
  uint64_t at_ = 0;              ///< bytes written
  uint64_t left_ = 0;            ///< bytes that the open entry still wants
  bool open_ = false;
  std::vector<written> entries_;
};

}  // namespace troupe::checkpoint
