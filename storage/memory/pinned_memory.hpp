// Manages buffers for transfers that stay in physical memory: on huge pages, locked as far as the system allows.
// Several `io_handle`s may share one manager by pointer; its buffers live as long as the manager.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "storage/memory/huge_memory.hpp"

namespace troupe::storage {

inline constexpr size_t pinned_buffers_max = 65536;  ///< largest number of buffers of one manager

class pinned_memory {  ///< allocates and releases pinned buffers; may be used by any thread
 public:
  /// Returns a buffer of `bytes` zeros at a multiple of 4096 bytes, or of 2 MiB for buffers of at least 2 MiB. A buffer
  /// that cannot be locked is returned unlocked, and `remarks` contains the reason. Errors: `bad_input` for 0 bytes;
  /// `limit` beyond `pinned_buffers_max` or if the memory is not available.
  core::result<std::span<std::byte>> allocate(uint64_t bytes);

  /// Frees a buffer, which no transfer may use any more. Returns false if `buffer` does not begin where an allocated
  /// buffer begins.
  bool free(std::span<const std::byte> buffer);

  /// True if all of `part` is within one buffer.
  [[nodiscard]] bool holds(std::span<const std::byte> part) const;

  [[nodiscard]] uint64_t bytes() const;                    ///< returns the size of all buffers, rounded up to pages
  [[nodiscard]] std::vector<std::string> remarks() const;  ///< returns why buffers are not locked, each sentence once

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, huge_memory> buffers_;  // buffers by the address of their first byte
  uint64_t bytes_ = 0;
  std::vector<std::string> remarks_;
};

}  // namespace troupe::storage
