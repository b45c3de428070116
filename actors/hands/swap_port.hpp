// The rank's way to its swap file as the io lane asks for it. Owns the words; file_port.hpp has the real one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "storage/swap/swap_queue.hpp"

namespace troupe::actors {

/// Bytes of a window and where they lie in the file; parts are over together.
struct swap_order {
  struct part {
    uint64_t offset = 0;  ///< in the file
    std::span<std::byte> window;
  };
  storage::io_kind kind = storage::io_kind::read;
  uint64_t token = 0;  ///< comes back with the completion
  std::vector<part> parts;
};

/// One thread's, and one that lasts.
class swap_port {
 public:
  /// Cancels and waits for what is in flight: no window is touched afterwards.
  virtual ~swap_port() = default;
  /// Begins it; errors: nothing was begun.
  virtual core::result<void> submit(const swap_order& order) = 0;
  /// Appends all orders that are over; then whoever opened the port is told of the next. Never blocks.
  virtual void look(std::vector<storage::swap_completion>& over) = 0;
  /// Every order completes, as stopped where it was not over yet; appends them when they have.
  virtual void stop(std::vector<storage::swap_completion>& over) = 0;
};

/// Opens the port onto these windows, on the thread that will use it.
using swap_opener =
    std::function<core::result<std::unique_ptr<swap_port>>(const std::vector<std::span<std::byte>>& windows)>;

}  // namespace troupe::actors
