// Runs one thread of an `io_handle` with its own ring: accepts jobs from any thread, executes them, and reports their
// ends.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "storage/handle/block_runner.hpp"

namespace troupe::storage {

class handle_worker {
 public:
  /// Starts the thread. `over` is called on the worker's thread at the end of each job.
  static core::result<std::unique_ptr<handle_worker>> start(const block_runner_options& options,
                                                            std::function<void(const block_job_end&)> over);
  ~handle_worker();  ///< cancels unfinished jobs, without calling `over` for them
  handle_worker(const handle_worker&) = delete;
  handle_worker& operator=(const handle_worker&) = delete;

  void add(block_job job);  ///< queues a job; may be called by any thread
  [[nodiscard]] const std::string& engine() const { return engine_; }
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  handle_worker() = default;
  void work(block_runner& runner);
  void wake() const;
  bool take(block_runner& runner);

  std::function<void(const block_job_end&)> over_;
  int wake_ = -1;
  std::mutex mutex_;
  std::vector<block_job> inbox_;
  bool stop_ = false;
  std::string engine_;
  std::vector<std::string> remarks_;
  std::thread thread_;
};

}  // namespace troupe::storage
