// The twin of the io_uring queue for kernels and containers that refuse it: a pool of threads, each in one pread or
// pwrite at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

/// Starts `options.threads` threads (never more than `options.depth`). `remarks` are said of the queue, after what it
/// has to say itself. Errors: those of `check(options)`; `limit` when the system gives no thread.
core::result<std::unique_ptr<io_queue>> open_thread_queue(const io_queue_options& options,
                                                          std::vector<std::string> remarks = {});

}  // namespace troupe::storage
