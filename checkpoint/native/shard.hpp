// Writes one data file of a checkpoint, from its beginning to its end: a header of 4 KiB, then pieces. Owns the header,
// the padding and the digests (docs/formats.md); the caller decides which tensor a piece belongs to and where it is
// placed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/files/digest.hpp"
#include "checkpoint/files/file_system.hpp"
#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

inline constexpr uint32_t shard_version = 1;
inline constexpr uint64_t shard_header_bytes = piece_alignment_bytes;

/// Returns the name of the data file that writer `number` writes: `shard-00003.bin` for 3.
std::string shard_file_name(uint32_t number);
/// Returns the number in a name that shard_file_name() makes; nothing for any other name.
std::optional<uint32_t> shard_number_of(std::string_view name);

/// Copies a piece to `to`, bypassing the cache, pads the copy with zeros up to a multiple of piece_alignment_bytes, and
/// returns the piece's digest. The address `to` must be a multiple of piece_alignment_bytes, and the memory must have
/// room for the padding.
digest128 stage_piece(std::span<const std::byte> piece, std::byte* to);
/// Pads `piece` in place with zeros up to a multiple of piece_alignment_bytes, and returns its digest, equal to that of
/// stage_piece(). Requires room for the padding after the piece.
digest128 stage_piece_in_place(std::span<std::byte> piece);

/// Writes one data file: blocks of staged pieces, one after the other.
class shard_writer {
 public:
  /// Creates the file. `path` must not exist. Every file of one save has the same `save_id`. `file_bytes`, header
  /// included, lets the file system reserve space.
  static core::result<shard_writer> create(file_system& files, const std::filesystem::path& path, digest128 save_id,
                                           uint64_t file_bytes);

  /// Starts to append a block: staged pieces with their padding, whose address and length are multiples of
  /// piece_alignment_bytes. Returns a ticket; the memory must not change until `wait` or `is_over` reports that ticket.
  /// After an error the writer may only be destroyed; the destructor waits for writes in flight.
  core::result<uint64_t> start_block(std::span<const std::byte> block);
  /// Waits until the block of `ticket` and all earlier blocks are written.
  core::result<void> wait(uint64_t ticket) { return file_->wait(ticket); }
  [[nodiscard]] bool is_over(uint64_t ticket) { return file_->is_over(ticket); }  ///< true if `wait` would not block

  /// Waits for every block, syncs and closes the file; returns name and size for the manifest. Must be the last call.
  core::result<shard_file> finish();

 private:
  shard_writer(std::filesystem::path path, std::unique_ptr<output_file> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::filesystem::path path_;
  std::unique_ptr<output_file> file_;
  uint64_t written_bytes_ = 0;
};

/// Checks a data file before it is read. Refused: a file that is not Troupe's, a newer version, a damaged header,
/// another save, a length other than `expected.bytes`.
core::result<void> check_shard(const input_file& file, const std::filesystem::path& path, const shard_file& expected,
                               digest128 save_id);

}  // namespace troupe::checkpoint
