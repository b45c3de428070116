// Buffers for transfers that stay where they are: on huge pages, locked as far as the system lets us. One manager may
// serve several `io_handle`s, which share it by pointer; what it lent lives as long as it does.
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

inline constexpr size_t pinned_buffers_max = 65536;  ///< of one manager

class pinned_memory {  ///< any thread
 public:
  /// `bytes` of zeros at a multiple of 4096 bytes, of 2 MiB from that size on. What cannot be locked is lent all the
  /// same and `remarks` says why. Errors  `bad_input` for 0 bytes; `limit` beyond `pinned_buffers_max` or when there is
  /// no such memory.
  core::result<std::span<std::byte>> allocate(uint64_t bytes);

  /// Gives a buffer back; no transfer may use it any more. False for what does not begin where a buffer begins.
  bool free(std::span<const std::byte> buffer);

  /// Whether all of `part` lies within one buffer.
  [[nodiscard]] bool holds(std::span<const std::byte> part) const;

  [[nodiscard]] uint64_t bytes() const;                    ///< lent now, rounded up to pages
  [[nodiscard]] std::vector<std::string> remarks() const;  ///< each once

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, huge_memory> buffers_;  // by their first byte
  uint64_t bytes_ = 0;
  std::vector<std::string> remarks_;
};

}  // namespace troupe::storage
