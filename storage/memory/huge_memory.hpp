// Memory for pools: one anonymous mapping, from 2 MiB on aligned to 2 MiB and on huge pages if the kernel has them.
// Direct I/O from such memory is twice as fast as from ordinary pages, and page faults are 512 times fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/error.hpp"

namespace troupe::storage {

class huge_memory {  ///< owns one mapping of memory, which is zeroed at first
 public:
  static constexpr uint64_t alignment_bytes = uint64_t{2} << 20;

  huge_memory() = default;
  huge_memory(huge_memory&& o) noexcept : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
  huge_memory& operator=(huge_memory&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  huge_memory(const huge_memory&) = delete;
  huge_memory& operator=(const huge_memory&) = delete;
  ~huge_memory();

  /// Allocates `bytes` zeros, rounded up to 4 KiB; returns an empty object for 0. Error `limit`, with the number of
  /// bytes, if the kernel has no room.
  static core::result<huge_memory> allocate(uint64_t bytes);

  /// Frees all pages but keeps the mapping; the bytes are zeros at their next use. False if the system refuses.
  [[nodiscard]] bool discard() const;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace troupe::storage
