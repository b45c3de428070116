// One data file of a checkpoint: a header of 4 KiB, then pieces, written once from begin to end. Owns the bytes of
// the file (docs/formats.md) and the digests; which tensor a piece belongs to is the caller's business.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/native/manifest.hpp"
#include "checkpoint/safetensors/writer.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

inline constexpr uint32_t shard_version = 1;
inline constexpr uint64_t shard_header_bytes = piece_alignment_bytes;

/// `shard-00003.bin` of writer 3.
std::string shard_file_name(uint32_t number);

/// Where the bytes of one piece went.
struct written_piece {
  uint64_t offset_bytes = 0, bytes = 0;
  digest128 digest;
};

/// How the writing of one file went, for those who show it.
struct write_statistics {
  std::filesystem::path path;
  uint64_t bytes = 0;         ///< with header and padding
  double seconds = 0;         ///< from its creation until it was synced
  double waited_seconds = 0;  ///< of these, the writing thread's in the file: copying, waiting for the disk, syncing
  [[nodiscard]] double gigabytes_per_second() const;  ///< 10^9 bytes; 0 where no time passed
};

/// The file's whole size for pieces of these sizes: what must be free before a save.
uint64_t shard_bytes_for(std::span<const uint64_t> piece_bytes);

/// Writes one file. Every write begins and ends at a multiple of 4 KiB. Pieces come whole, from a source, or in
/// blocks that are written while the next is made ready.
class shard_writer {
 public:
  /// `path` must not exist. Every file of one save has the same `save_id`. `expected_bytes` (shard_bytes_for()) lets
  /// the file system reserve room; 0 where it is not known.
  static core::result<shard_writer> create(file_system& files, const std::filesystem::path& path, digest128 save_id,
                                           uint64_t expected_bytes = 0);

  /// Appends a piece and pads it with zeros. After an error only destruction makes sense.
  core::result<written_piece> append(std::span<const std::byte> bytes);
  /// The same, asked for block by block.
  core::result<written_piece> append(uint64_t bytes, const byte_source& source);

  /// The next block of a piece, asynchronously: `used_bytes` at the begin of `block`, whose address and length are
  /// multiples of 4 KiB; what is behind them, only in a piece's last block, becomes zeros here. The memory stays
  /// untouched until `wait` or `is_over` with the ticket that this gives. The digest is taken before it returns.
  core::result<uint64_t> start_block(std::span<std::byte> block, uint64_t used_bytes);
  /// Ends the piece that start_block() began; nothing is waited for. A piece of no block is empty.
  written_piece end_piece();
  core::result<void> wait(uint64_t ticket);                                       ///< that block and all before it
  [[nodiscard]] bool is_over(uint64_t ticket) { return file_->is_over(ticket); }  ///< `wait` would not block

  /// Waits for every block, syncs and closes; name and size for the manifest. Last call.
  core::result<shard_file> finish();
  /// So far; from finish() on it does not change.
  [[nodiscard]] write_statistics statistics() const;

 private:
  shard_writer(std::filesystem::path path, std::unique_ptr<output_file> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  core::result<void> write(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  std::unique_ptr<output_file> file_;
  std::vector<std::byte> block_;
  uint64_t written_bytes_ = 0;
  written_piece open_;  ///< of start_block
  int64_t began_ns_ = 0, ended_ns_ = 0, waited_ns_ = 0;
  digest_stream open_digest_;
};

/// The header of a file that belongs to a save.
std::array<std::byte, shard_header_bytes> make_shard_header(digest128 save_id);

/// Refused: a file that is none of ours, of a newer version, damaged in its header, of another save, or not
/// `expected.bytes` long.
core::result<void> check_shard(const input_file& file, const std::filesystem::path& path, const shard_file& expected,
                               digest128 save_id);

}  // namespace troupe::checkpoint
