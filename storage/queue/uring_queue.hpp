// Implements io_queue by io_uring: one ring, one system call per batch, memory and files registered if the kernel
// allows it. No other code depends on liburing.
#pragma once

#include <memory>

#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

/// Makes a queue with a ring for `options.depth` requests. Set-up flags that the kernel does not support are omitted;
/// pools that cannot be registered (RLIMIT_MEMLOCK) are used unregistered, with a sentence in `remarks()`. The
/// submitting thread must outlive its requests: the kernel cancels the requests of a thread that ends. Errors: those of
/// `check(options)`; `io` with the kernel's reason if it refuses io_uring.
core::result<std::unique_ptr<io_queue>> open_uring_queue(const io_queue_options& options);

}  // namespace troupe::storage
