// Memory that several processes of a machine map: without a name in a file system, of a fixed size, accessed through a
// descriptor that is inherited or sent. Owns one process's mapping; the memory is freed with the last mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/error.hpp"

namespace troupe::storage {

/// One mapping of shared memory. Pages have 4 KiB unless the system uses huge pages for shared memory
/// (`/sys/kernel/mm/transparent_hugepage/shmem_enabled`).
class shared_memory {
 public:
  shared_memory() = default;
  shared_memory(shared_memory&& o) noexcept
      : descriptor_(std::exchange(o.descriptor_, -1)),
        data_(std::exchange(o.data_, nullptr)),
        bytes_(std::exchange(o.bytes_, 0)) {}
  shared_memory& operator=(shared_memory&& o) noexcept {
    std::swap(descriptor_, o.descriptor_);
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  shared_memory(const shared_memory&) = delete;
  shared_memory& operator=(const shared_memory&) = delete;
  ~shared_memory();

  /// Creates and maps `bytes` zeros, rounded up to pages; returns an empty object for 0. Errors: limit, if the system
  /// has no room or no descriptors.
  static core::result<shared_memory> create(uint64_t bytes);

  /// Maps the memory that another process created, and takes ownership of `descriptor`. Errors: bad_input if its size
  /// could still change, or is not a whole number of pages; limit.
  static core::result<shared_memory> open(int descriptor);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  /// Returns the descriptor of the memory, which is closed on exec; -1 if the object is empty.
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  core::result<void> map(uint64_t bytes);

  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace troupe::storage
