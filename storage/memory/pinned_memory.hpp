// Buffers for transfers that stay resident: on huge pages, locked as far as the system allows. One manager may serve
// several `io_handle`s, which share it by pointer; its buffers live as long as the manager.
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

inline constexpr size_t pinned_buffers_max = 65536;  ///< buffers of one manager

class pinned_memory {  ///< may be used by any thread
 public:
  /// Returns a buffer of `bytes` zeros at a multiple of 4096 bytes, or of 2 MiB for buffers of at least 2 MiB. A buffer
  /// that cannot be locked is returned unlocked, and `remarks` contains the reason. Errors: `bad_input` for 0 bytes;
  /// `limit` beyond `pinned_buffers_max` or if the memory is not available.
  core::result<std::span<std::byte>> allocate(uint64_t bytes);

  /// Frees a buffer; no transfer may use it any more. False if `buffer` does not begin where an allocated buffer
  /// begins.
  bool free(std::span<const std::byte> buffer);

  /// True if all of `part` is within one buffer.
  [[nodiscard]] bool holds(std::span<const std::byte> part) const;

  [[nodiscard]] uint64_t bytes() const;                    ///< bytes of the current buffers, rounded up to pages
  [[nodiscard]] std::vector<std::string> remarks() const;  ///< each sentence once

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, huge_memory> buffers_;  // [address of the first byte]
  uint64_t bytes_ = 0;
  std::vector<std::string> remarks_;
};

}  // namespace troupe::storage
