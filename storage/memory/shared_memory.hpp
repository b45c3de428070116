// Memory that several processes of a machine map: zeroed bytes without a name, of a size that nobody can change,
// reached through a descriptor that is inherited or sent. Owns one process's mapping; the bytes go with the last of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/error.hpp"

namespace troupe::storage {

/// 4 KiB pages unless the system gives shared memory huge ones (`/sys/kernel/mm/transparent_hugepage/shmem_enabled`).
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

  /// `bytes` of zeros, rounded up to pages; none for 0. Errors: limit, where the system has no room or no descriptors.
  static core::result<shared_memory> create(uint64_t bytes);

  /// Maps what another process created, of which `descriptor` is ours from now on. Errors: bad_input where its size
  /// could still change, or is not a whole number of pages; limit.
  static core::result<shared_memory> open(int descriptor);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  /// Closed on exec; -1 where there is no memory.
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  core::result<void> map(uint64_t bytes);

  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace troupe::storage
