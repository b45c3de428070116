// Interface between the io lane and the rank's swap file; file_port.hpp implements it.
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

/// A request to read or write a window: its memory, and the ranges of the swap file. All ranges complete together.
struct swap_order {
  struct part {
    uint64_t offset = 0;  ///< byte offset of the part in the swap file
    std::span<std::byte> window;
  };
  storage::io_kind kind = storage::io_kind::read;
  uint64_t token = 0;  ///< number that the caller chooses; the completion returns it
  std::vector<part> parts;
};

/// The interface through which an io lane reads and writes its rank's swap file. One thread uses a port, and must
/// outlive it.
class swap_port {
 public:
  /// Cancels requests in flight and waits for them: no window is accessed afterwards.
  virtual ~swap_port() = default;
  /// Begins a request; if an error is returned, nothing was begun.
  virtual core::result<void> submit(const swap_order& order) = 0;
  /// Appends all finished orders to `over`. The order that finishes next notifies the port's opener again. Never
  /// blocks.
  virtual void look(std::vector<storage::swap_completion>& over) = 0;
  /// Ends every order and appends it to `over`; orders that were not finished end as stopped.
  virtual void stop(std::vector<storage::swap_completion>& over) = 0;
};

/// Function that opens the port for these windows, on the thread that will use the port.
using swap_opener =
    std::function<core::result<std::unique_ptr<swap_port>>(const std::vector<std::span<std::byte>>& windows)>;

}  // namespace troupe::actors
