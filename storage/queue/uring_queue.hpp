// Reads and writes through io_uring: one ring, one batch per submit, memory and files registered where the kernel lets
// us. The only place that knows liburing.
#pragma once

#include <memory>

#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

/// Makes a ring of `options.depth`. Set-up flags that the kernel does not know are left out; pools that cannot be
/// registered (RLIMIT_MEMLOCK) are used unregistered, said in `remarks()`. The thread that submits must outlive what it
/// submitted: the kernel cancels the requests of a thread that ends.
/// Errors  those of `check(options)`; `io` when the kernel refuses io_uring, with its reason.
core::result<std::unique_ptr<io_queue>> open_uring_queue(const io_queue_options& options);

}  // namespace troupe::storage
