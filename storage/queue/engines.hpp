// The two implementations of io_queue, each in a source of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

/// Makes a queue with a ring for `options.depth` requests. Set-up flags that the kernel does not support are omitted;
/// pools that cannot be registered (RLIMIT_MEMLOCK) are used unregistered, with a sentence in `remarks()`. The
/// submitting thread must outlive its requests: the kernel cancels the requests of a thread that ends. Errors: those of
/// `check(options)`; `io` with the kernel's reason if it refuses io_uring.
core::result<std::unique_ptr<io_queue>> open_uring_queue(const io_queue_options& options);

/// Makes a queue with `options.threads` threads, at most `options.depth`. Appends `remarks` to the queue's remarks.
/// Errors: those of `check(options)`; `limit` if the system refuses a thread.
core::result<std::unique_ptr<io_queue>> open_thread_queue(const io_queue_options& options,
                                                          std::vector<std::string> remarks = {});

}  // namespace troupe::storage
