// Opens the port through which the io lane reads and writes a swap file on a disk: a queue of requests, and a watch
// that reports completed requests. Owns the queue from the port's opening to its end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/memory/swap_port.hpp"
#include "storage/queue/event_watch.hpp"

namespace troupe::actors {

struct file_port_setup {
  /// Options of the queue of requests. Must name no pools: the lane's windows are registered in their place.
  storage::swap_queue_options queue;
  /// The watch that waits for completed requests; one for all ranks of a process.
  std::shared_ptr<storage::event_watch> watch;
  std::function<void()> wake;  ///< makes the lane look for completed requests; called on any thread
  /// Called on the thread of the I/O lane for each io_uring feature that was asked for and is not available; may be
  /// empty.
  std::function<void(const std::string&)> warn;
};

/// Returns a function that opens ports to `file`. Errors of opening: those of storage::swap_queue and event_watch.
swap_opener through_file(std::shared_ptr<storage::swap_file> file, file_port_setup setup);

}  // namespace troupe::actors
