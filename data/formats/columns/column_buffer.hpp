// Reads one buffer of an Arrow batch from its beginning to its end. The bytes come from the file, read in pieces, or
// from memory if the buffer was compressed and had to be expanded.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/columns/block_codec.hpp"

namespace troupe::data {

class column_buffer {
 public:
  /// Smallest number of bytes that one read of the file requests.
  static constexpr uint64_t piece_read_bytes = uint64_t{1} << 20;

  column_buffer() = default;
  /// Opens bytes [begin, begin + length) of the file, which must be inside it. With a codec, the buffer begins with its
  /// expanded length, or with -1 if it is not compressed.
  static core::result<column_buffer> open(const core::source_file& file, uint64_t begin, uint64_t length,
                                          block_codec codec) {
    column_buffer out;
    out.file_ = &file;
    out.begin_ = begin;
    out.size_ = length;
    if (codec == block_codec::none || length == 0) return out;
    int64_t said = 0;
    if (length < sizeof said) return core::fail(core::error_kind::bad_input, "a packed buffer without its length");
    if (length > max_block_bytes)
      return core::fail(core::error_kind::limit,
                        fmt::format("a packed buffer of {} bytes, at most {} are read", length, max_block_bytes));
    std::vector<std::byte> packed(length);
    TROUPE_TRY(file.read(begin, packed));
    std::memcpy(&said, packed.data(), sizeof said);
    out.begin_ += sizeof said;
    out.size_ -= sizeof said;
    if (said == -1) return out;
    TROUPE_TRY(expand_block(codec, std::span(packed).subspan(sizeof said), static_cast<uint64_t>(said), out.held_));
    out.begin_ = 0;
    out.size_ = out.held_.size();
    return out;
  }

  [[nodiscard]] uint64_t size() const { return size_; }
  /// Returns the most bytes of memory that the buffer occupies after a read of `bytes`.
  [[nodiscard]] uint64_t held_bytes_after(uint64_t bytes) const {
    return std::max<uint64_t>({held_.capacity(), bytes, piece_read_bytes});
  }

  /// Returns bytes [at, at + bytes), which must be inside the buffer; valid until the next call.
  core::result<std::span<const std::byte>> read(uint64_t at, uint64_t bytes) {
    if (at < first_ || at + bytes > first_ + held_.size()) {
      const uint64_t wanted = std::min(std::max(bytes, piece_read_bytes), size_ - at);
      // resize() would copy the old bytes, and reserve more than `wanted`
      if (wanted > held_.capacity()) held_ = std::vector<std::byte>();
      held_.resize(wanted);
      first_ = at;
      TROUPE_TRY(file_->read(begin_ + at, held_));
    }
    return std::span<const std::byte>(held_).subspan(at - first_, bytes);
  }

  /// Returns integer number `index` in an array of integers of `width` bytes.
  core::result<int64_t> integer(uint64_t index, uint64_t width, bool is_signed) {
    TROUPE_ASSIGN(const auto bytes, read(index * width, width));
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), width);
    const unsigned unused = static_cast<unsigned>(64 - 8 * width);
    return is_signed ? static_cast<int64_t>(value << unused) >> unused : static_cast<int64_t>(value);
  }

 private:
  const core::source_file* file_ = nullptr;
  uint64_t begin_ = 0, size_ = 0, first_ = 0;
  std::vector<std::byte> held_;  // bytes of the buffer that are in memory; they begin at offset first_ of the buffer
};

}  // namespace troupe::data
