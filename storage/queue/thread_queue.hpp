// Implements io_queue by a pool of threads, each of which executes one pread or pwrite at a time. Used on kernels and
// in containers that refuse io_uring.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

/// Makes a queue with `options.threads` threads, at most `options.depth`. Appends `remarks` to the queue's remarks.
/// Errors: those of `check(options)`; `limit` if the system refuses a thread.
core::result<std::unique_ptr<io_queue>> open_thread_queue(const io_queue_options& options,
                                                          std::vector<std::string> remarks = {});

}  // namespace troupe::storage
