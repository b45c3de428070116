// Owns memory for bytes in transit: buffers that are reused and together never exceed a limit. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::fabric {

/// One buffer for bytes in transit; a transfer that uses the buffer holds a reference to it.
struct staging_buffer {
  explicit staging_buffer(uint64_t n) : bytes(new std::byte[n]), size(n) {}
  std::unique_ptr<std::byte[]> bytes;
  uint64_t size;
};

/// The staging buffers of one purpose, such as received contributions or sums to send.
class staging {
 public:
  explicit staging(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  /// Returns a buffer of at least `bytes`; null while the buffers in use leave less than `bytes` of the limit.
  std::shared_ptr<staging_buffer> take(uint64_t bytes) {
    const auto fits = std::ranges::find_if(free_, [&](const auto& b) { return b->size >= bytes; });
    if (fits != free_.end()) {
      auto out = std::move(*fits);
      free_.erase(fits);
      return out;
    }
    if (made_bytes_ + bytes > bytes_max_) {
      for (const auto& b : free_) made_bytes_ -= b->size;
      free_.clear();
    }
    if (made_bytes_ + bytes > bytes_max_) return nullptr;
    made_bytes_ += bytes;
    most_ = std::max(most_, made_bytes_);
    return std::make_shared<staging_buffer>(bytes);
  }
  void give_back(std::shared_ptr<staging_buffer> buffer) { free_.push_back(std::move(buffer)); }

  [[nodiscard]] uint64_t bytes_max() const { return bytes_max_; }
  [[nodiscard]] uint64_t most() const { return most_; }  ///< returns the peak bytes of staging memory so far

 private:
  uint64_t bytes_max_, made_bytes_ = 0, most_ = 0;
  std::vector<std::shared_ptr<staging_buffer>> free_;
};

}  // namespace troupe::fabric
