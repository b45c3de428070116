// A team of threads that compute optimizer updates on the host together, for a job whose model computes on a device,
// because the host's cores are otherwise idle. Owns the threads; the caller divides the work into parts.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace troupe::actors {

class host_team {
 public:
  /// `threads`: number of threads that work together, including the thread that calls run(). The others are started by
  /// the first run() with more than one part.
  explicit host_team(uint32_t threads) : threads_(threads) {}
  ~host_team();
  host_team(const host_team&) = delete;
  host_team& operator=(const host_team&) = delete;

  /// Calls `f(part)` once for each part below `parts`, on any of the threads and in any order; returns when all calls
  /// have returned. `f` must not throw.
  void run(uint64_t parts, const std::function<void(uint64_t)>& f);

 private:
  void work();
  void take_parts(std::unique_lock<std::mutex>& lock);

  const uint32_t threads_;
  std::mutex mutex_;
  std::condition_variable work_came_, work_ended_;
  const std::function<void(uint64_t)>* f_ = nullptr;
  uint64_t parts_ = 0, next_ = 0, ended_ = 0;  // numbers of parts of the current run: all, begun, ended
  bool is_over_ = false;
  std::vector<std::jthread> others_;
};

}  // namespace troupe::actors
