// Replaces the io_uring queue on kernels and in containers that refuse io_uring: a pool of threads, each in one pread
// or pwrite at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

/// Starts `options.threads` threads (never more than `options.depth`). `remarks` are appended to the queue's own
/// remarks. Errors: those of `check(options)`; `limit` if the system refuses a thread.
core::result<std::unique_ptr<io_queue>> open_thread_queue(const io_queue_options& options,
                                                          std::vector<std::string> remarks = {});

}  // namespace troupe::storage
