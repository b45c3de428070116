// A file written from beginning to end, past the page cache where the file system supports that. A thread of its own
// writes one block while the caller fills the next. The file appears as a whole or not at all, through atomic_file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "core/error.hpp"

namespace troupe::storage {

/// Bytes of a block; a streamed_file holds two blocks.
inline constexpr size_t stream_block_bytes = size_t{8} << 20;

/// A file that is being written. If commit() is not called, the written bytes are removed and the old file stays.
class streamed_file {
 public:
  static core::result<streamed_file> create(const std::filesystem::path& target);
  streamed_file(streamed_file&&) noexcept;
  ~streamed_file();

  /// Appends bytes. The returned error may be of an earlier block; after an error the object may only be destroyed.
  core::result<void> write(std::span<const std::byte> bytes);
  core::result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

  /// Writes the remaining bytes, syncs the file and renames it to the target.
  core::result<void> commit();

 private:
  struct parts;
  explicit streamed_file(std::unique_ptr<parts> p);
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::storage
