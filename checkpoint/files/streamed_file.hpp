// A file that is written from its begin to its end, by a thread of its own while the next block is filled, past the
// page cache where the file system does that. Appears whole or not at all, as atomic_file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Bytes of a block; two are held.
inline constexpr size_t stream_block_bytes = size_t{8} << 20;

/// One file on its way; without commit() nothing remains and the old file stays.
class streamed_file {
 public:
  static core::result<streamed_file> create(const std::filesystem::path& target);
  streamed_file(streamed_file&&) noexcept;
  ~streamed_file();

  /// Appends. The error may be that of an earlier block; after one only destruction makes sense.
  core::result<void> write(std::span<const std::byte> bytes);
  core::result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

  /// Writes what is left, syncs, and gives the file its name.
  core::result<void> commit();

 private:
  struct parts;
  explicit streamed_file(std::unique_ptr<parts> p);
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::checkpoint
