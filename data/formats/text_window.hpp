// Presents a text of any length as a short piece of memory that moves along it. Owns the buffer; the text is in the
// source, which may be a file that other processes change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/source_file.hpp"

namespace troupe::data {

/// Smallest number of bytes that one read of the source requests.
inline constexpr uint64_t window_block_bytes = uint64_t{1} << 22;

class text_window {  ///< reads a text from a file, which must outlive the window, or from memory
 public:
  explicit text_window(const core::source_file& file) : file_(&file), size_(file.size()) {}
  text_window(std::string_view text) : held_(text), size_(text.size()) {}
  text_window(const text_window&) = delete;
  text_window& operator=(const text_window&) = delete;

  [[nodiscard]] uint64_t size() const { return size_; }

  /// Returns the text from `offset` on: at least `bytes` of it, fewer only at its end. Valid until the next call;
  /// offsets must not decrease. Returns every error of core::source_file::read.
  core::result<std::string_view> at(uint64_t offset, uint64_t bytes) {
    const uint64_t wanted = std::min(bytes, size_ - offset);
    if (offset + wanted > first_ + held_.size()) TROUPE_TRY(move_to(offset, wanted));
    return held_.substr(offset - first_);
  }

 private:
  core::result<void> move_to(uint64_t offset, uint64_t wanted) {
    const std::string_view rest = held_.substr(std::min<uint64_t>(offset - first_, held_.size()));
    std::string next(rest);
    const uint64_t begin = offset + next.size();
    next.resize(std::min(std::max(wanted, window_block_bytes), size_ - offset));
    TROUPE_TRY(file_->read(begin, std::as_writable_bytes(std::span(next).subspan(begin - offset))));
    buffer_ = std::move(next);
    held_ = buffer_;
    first_ = offset;
    return {};
  }

  const core::source_file* file_ = nullptr;
  std::string buffer_;
  // The current part of the text, which begins at offset first_: in the buffer, or the whole text if it is in memory.
  std::string_view held_;
  uint64_t first_ = 0, size_;
};

}  // namespace troupe::data
