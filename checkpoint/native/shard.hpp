// Writes one data file of a checkpoint, from its beginning to its end: a header of 4 KiB, then pieces. Owns the padding
// and the digests (docs/formats.md); leaves the header to formats/source/shard_header.hpp. The caller decides which
// tensor a piece belongs to and where it is placed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "core/error.hpp"
#include "formats/source/shard_header.hpp"
#include "storage/files/digest.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {

/// Copies a piece to `to`, bypassing the cache, pads the copy with zeros up to a multiple of piece_alignment_bytes, and
/// returns the piece's digest. The address `to` must be a multiple of piece_alignment_bytes, and the memory must have
/// room for the padding.
storage::digest128 stage_piece(std::span<const std::byte> piece, std::byte* to);
/// Pads `piece` in place with zeros up to a multiple of piece_alignment_bytes, and returns its digest, equal to that of
/// stage_piece(). Requires room for the padding after the piece.
storage::digest128 stage_piece_in_place(std::span<std::byte> piece);

/// Writes one data file: blocks of staged pieces, one after the other.
class shard_writer {
 public:
  /// Creates the file. `path` must not exist. Every file of one save has the same `save_id`. `file_bytes`, header
  /// included, lets the file system reserve space.
  static core::result<shard_writer> create(storage::file_system& files, const std::filesystem::path& path,
                                           storage::digest128 save_id, uint64_t file_bytes);

  /// Starts to append a block: staged pieces with their padding, whose address and length are multiples of
  /// piece_alignment_bytes. Returns a ticket; the memory must not change until `wait` or `is_over` reports that ticket.
  /// After an error the writer may only be destroyed; the destructor waits for writes in flight.
  core::result<uint64_t> start_block(std::span<const std::byte> block);
  /// Waits until the block of `ticket` and all earlier blocks are written.
  core::result<void> wait(uint64_t ticket) { return file_->wait(ticket); }
  [[nodiscard]] bool is_over(uint64_t ticket) { return file_->is_over(ticket); }  ///< true if `wait` would not block

  /// Waits for every block, syncs and closes the file; returns name and size for the manifest. Must be the last call.
  core::result<formats::shard_file> finish();

 private:
  shard_writer(std::filesystem::path path, std::unique_ptr<storage::output_file> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::filesystem::path path_;
  std::unique_ptr<storage::output_file> file_;
  uint64_t written_bytes_ = 0;
};

}  // namespace troupe::checkpoint
