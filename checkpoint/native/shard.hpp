// One data file of a checkpoint: a header of 4 KiB, then pieces, written once from begin to end. Owns the
// header, the padding and the digests (docs/formats.md); which tensor a piece belongs to and where it lies is the
// caller's business.
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

/// `shard-00003.bin` of writer 3.
std::string shard_file_name(uint32_t number);
/// Back, for exactly such names.
std::optional<uint32_t> shard_number_of(std::string_view name);

/// Makes a piece ready to be written at `to`, a multiple of piece_alignment_bytes: copies it past the cache, pads it
/// with zeros up to the next such multiple, which `to` has room for, and gives its digest.
digest128 stage_piece(std::span<const std::byte> piece, std::byte* to);
/// The same of a piece that lies there already.
digest128 stage_piece_in_place(std::span<std::byte> piece);

/// Writes one file: blocks of staged pieces, one behind the other.
class shard_writer {
 public:
  /// `path` must not exist. Every file of one save has the same `save_id`. `file_bytes`, header included, lets the file
  /// system reserve room.
  static core::result<shard_writer> create(file_system& files, const std::filesystem::path& path, digest128 save_id,
                                           uint64_t file_bytes);

  /// Begins to append a block: staged pieces with their padding, whose address and length are multiples of
  /// piece_alignment_bytes. The memory stays untouched until `wait` or `is_over` with the ticket that this gives. After
  /// an error only destruction makes sense, which waits for what is in flight.
  core::result<uint64_t> start_block(std::span<const std::byte> block);
  core::result<void> wait(uint64_t ticket) { return file_->wait(ticket); }        ///< that block and all before it
  [[nodiscard]] bool is_over(uint64_t ticket) { return file_->is_over(ticket); }  ///< `wait` would not block

  /// Waits for every block, syncs and closes; name and size for the manifest. Last call.
  core::result<shard_file> finish();

 private:
  shard_writer(std::filesystem::path path, std::unique_ptr<output_file> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::filesystem::path path_;
  std::unique_ptr<output_file> file_;
  uint64_t written_bytes_ = 0;
};

/// Refused: a file that is none of ours, of a newer version, damaged in its header, of another save, or not
/// `expected.bytes` long.
core::result<void> check_shard(const input_file& file, const std::filesystem::path& path, const shard_file& expected,
                               digest128 save_id);

}  // namespace troupe::checkpoint
