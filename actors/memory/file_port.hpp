// The io lane's way to a swap file on a disk: a queue of requests, and a watch that reports completions. Owns both from
// the port's opening to its end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/memory/swap_port.hpp"
#include "storage/queue/event_watch.hpp"

namespace troupe::actors {

struct file_port_setup {
  storage::swap_queue_options queue;            ///< without pools: the windows take their place
  std::shared_ptr<storage::event_watch> watch;  ///< one for all ranks of a process
  std::function<void()> wake;                   ///< from any thread: the lane should look at its port
  std::function<void(const std::string&)>
      warn;  ///< from the lane's thread: wanted features that could not be had; may be empty
};

/// Opens ports onto `file`. Errors of opening: those of storage::swap_queue and event_watch.
swap_opener through_file(std::shared_ptr<storage::swap_file> file, file_port_setup setup);

}  // namespace troupe::actors
