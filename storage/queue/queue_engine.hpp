// Names the implementations of a queue of reads and writes (io_queue.hpp), for options that choose one.
#pragma once

#include <cstdint>

namespace troupe::storage {

/// Implementation of a queue, which makes the system calls.
enum class queue_engine : uint8_t {
  best,     ///< io_uring, or threads if the kernel refuses it
  uring,    ///< io_uring; opening the queue fails if the kernel refuses it
  threads,  ///< a pool of threads that call pread and pwrite
};

}  // namespace troupe::storage
