// Interface through which the io lane reads and writes its rank's swap file; file_port.hpp implements it.
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

/// A request to read or write parts of the swap file, each from or into memory of a window. All parts complete
/// together.
struct swap_order {
  struct part {
    uint64_t offset = 0;  ///< byte offset of the part in the swap file
    std::span<std::byte> window;
  };
  storage::io_kind kind = storage::io_kind::read;
  uint64_t token = 0;  ///< number that the caller chooses; the completion returns it
  std::vector<part> parts;
};

/// A port to a rank's swap file. One thread calls all of its functions, and that thread must outlive the port.
class swap_port {
 public:
  /// Cancels requests that have not completed and waits for their end: no window is accessed afterwards.
  virtual ~swap_port() = default;
  /// Begins a request. If it returns an error, no part of the request has begun.
  virtual core::result<void> submit(const swap_order& order) = 0;
  /// Appends the completions of all finished requests to `over`. When the next request finishes, the function `wake` of
  /// the port's setup is called again. Never blocks.
  virtual void look(std::vector<storage::swap_completion>& over) = 0;
  /// Ends every request and appends its completion to `over`; a request that was not finished has the error `stopped`.
  virtual void stop(std::vector<storage::swap_completion>& over) = 0;
};

/// Function that opens a port for transfers from and into `windows`; must be called on the thread that will use the
/// port.
using swap_opener =
    std::function<core::result<std::unique_ptr<swap_port>>(const std::vector<std::span<std::byte>>& windows)>;

}  // namespace troupe::actors
