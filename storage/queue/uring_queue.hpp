// Reads and writes through io_uring: one ring, one batch per submit, memory and files registered if the kernel allows
// it. The only code that depends on liburing.
#pragma once

#include <memory>

#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

/// Makes a ring of `options.depth`. Set-up flags that the kernel does not support are omitted; pools that cannot be
/// registered (RLIMIT_MEMLOCK) are used unregistered, with a sentence in `remarks()`. The submitting thread must
/// outlive its requests: the kernel cancels the requests of a thread that ends. Errors: those of `check(options)`; `io`
/// with the kernel's reason if it refuses io_uring.
core::result<std::unique_ptr<io_queue>> open_uring_queue(const io_queue_options& options);

}  // namespace troupe::storage
