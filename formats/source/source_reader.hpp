// Reads elements of a source's tensors, as they are stored or as another floating type. Owns the open files; the caller
// chooses tensors and elements. read_scattered() loads many tensors at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {

/// Block size in bytes for code that walks through a whole tensor.
inline constexpr size_t read_block_bytes = size_t{4} << 20;
/// Largest number of files that one reader keeps open; a reader that needs another file closes all.
inline constexpr size_t max_open_source_files = 128;
/// Size of the buffer of a conversion, in bytes, in addition to its output. A reader of cut tensors also buffers the
/// elements that it reads from a share.
inline constexpr size_t cast_block_bytes = size_t{1} << 20;

/// End of every sentence about bytes whose digest is wrong.
inline constexpr std::string_view digest_differs = "do not match their digest";

/// Reads elements of one source, for one thread at a time; `from` and `files` must outlive it.
class source_reader {
 public:
  explicit source_reader(const tensor_source& from, storage::file_system& files = storage::real_files())
      : from_(from), files_(files), open_(from.files.size()) {}

  /// Reads elements [first, first + count) of a tensor of `from`, in its own type, into the beginning of `out`. If the
  /// source has digests, the digest of a piece is compared when part of it is read for the first time, which reads the
  /// whole piece. Errors: io, also if a file has changed since the source was opened; bad_input for a piece whose bytes
  /// do not match its digest, with file, offset and tensor; bug for elements beyond the tensor or too little memory.
  core::result<void> read(const tensor_entry& t, uint64_t first, uint64_t count, std::span<std::byte> out);
  /// Reads elements as read() does and converts them to `wanted`, rounded once; both types must be floating, or equal
  /// (else mismatch). `out` may have any alignment. A finite value that `wanted` cannot hold is refused (numeric) with
  /// tensor and value, or clamped if the source counts clamped values.
  core::result<void> read_as(core::dtype wanted, const tensor_entry& t, uint64_t first, uint64_t count,
                             std::span<std::byte> out);

 private:
  core::result<const storage::input_file*> opened(uint32_t number);
  /// Compares the digest of piece `p`, unless it was compared before. `there` contains the bytes of the piece that were
  /// read; if these are not the whole piece, the function reads it.
  core::result<void> check(const tensor_entry& t, const piece& p, const storage::input_file& file,
                           std::span<const std::byte> there);

  const tensor_source& from_;
  storage::file_system& files_;
  std::vector<std::unique_ptr<storage::input_file>> open_;  ///< open files by number; null if closed
  size_t open_count_ = 0;
  std::vector<std::byte> block_, check_block_, share_block_;
  std::set<std::pair<uint32_t, uint64_t>> checked_;  ///< pieces whose digest was correct, by file and offset
};

/// Returns the error for a value that a narrower type cannot represent; `advice` is appended as a remedy.
core::error overflow_error(const std::string& tensor, const cast_overflow& lost, core::dtype wanted,
                           std::string_view advice);

/// Opens file `number` of the source; refuses a file that has changed since the source was opened.
core::result<std::unique_ptr<storage::input_file>> open_source_file(storage::file_system& files,
                                                                    const tensor_source& of, uint32_t number);
/// Opens a file as open_source_file() does, for the use of its bytes: the CRC-32 of a zip archive's entry is compared
/// when some of its bytes are read for the first time (file_sums.hpp).
core::result<std::unique_ptr<storage::input_file>> open_checked_file(storage::file_system& files,
                                                                     const tensor_source& of, uint32_t number);
/// Compares the CRC-32 of all entries of the zip archives among the source's files that were not compared before.
core::result<void> compare_sums(storage::file_system& files, const tensor_source& of);

}  // namespace troupe::formats
