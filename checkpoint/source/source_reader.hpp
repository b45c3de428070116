// Elements of a source's tensors, as they are stored or as another floating type. Owns the open files; which tensor
// and which elements is the caller's choice, and a load of many tensors in one go is read_scattered().
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

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/source/element_cast.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Block size for code that walks through a whole tensor.
inline constexpr size_t read_block_bytes = size_t{4} << 20;
/// Files that one reader keeps open; when it needs another, it closes all.
inline constexpr size_t max_open_source_files = 128;
/// Bytes that a conversion holds besides its output; beside those a reader of cut tensors holds what is read of a
/// share.
inline constexpr size_t cast_block_bytes = size_t{1} << 20;

/// For one thread at a time; `from` and `files` outlive it.
class source_reader {
 public:
  explicit source_reader(const tensor_source& from, file_system& files = real_files())
      : from_(from), files_(files), open_(from.files.size()) {}

  /// Elements [first, first + count) of a tensor of `from`, in its own type, into the begin of `out`. Where the source
  /// has digests, that of a piece is compared when something of it is read for the first time; for that all of it is
  /// read. Errors: io, also where a file is no longer as the source knew it; bad_input for a piece that does not have
  /// its digest, with file, offset and tensor; bug for elements beyond the tensor or memory that is too small.
  core::result<void> read(const tensor_entry& t, uint64_t first, uint64_t count, std::span<std::byte> out);
  /// The same as `wanted`, rounded once; both types floating or equal (else mismatch). `out` may have any alignment. A
  /// finite value that `wanted` does not hold is refused (numeric) with tensor and value, or clamped where the source
  /// counts such values.
  core::result<void> read_as(core::dtype wanted, const tensor_entry& t, uint64_t first, uint64_t count,
                             std::span<std::byte> out);

 private:
  core::result<const input_file*> opened(uint32_t number);
  /// `there`: what was read of the piece just now.
  core::result<void> check(const tensor_entry& t, const piece& p, const input_file& file,
                           std::span<const std::byte> there);

  const tensor_source& from_;
  file_system& files_;
  std::vector<std::unique_ptr<input_file>> open_;  ///< by number; null where closed
  size_t open_count_ = 0;
  std::vector<std::byte> block_, check_block_, share_block_;
  std::set<std::pair<uint32_t, uint64_t>> checked_;  ///< pieces that have their digest, by file and offset
};

/// The error for a value that a narrower type does not hold; `advice` says what to do instead.
core::error overflow_error(const std::string& tensor, const cast_overflow& lost, core::dtype wanted,
                           std::string_view advice);

/// Opens file `number` of the source and refuses it where it is no longer as the source knew it.
core::result<std::unique_ptr<input_file>> open_source_file(file_system& files, const tensor_source& of,
                                                           uint32_t number);

}  // namespace troupe::checkpoint
