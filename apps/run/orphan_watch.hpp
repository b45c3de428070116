// Ends a process of a job that outlives its parent: a rank may hang where nothing interrupts it (a driver, a disk),
// with locks that its successor needs. Owns the watching thread and the exit.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace troupe::apps {

/// Limit in nanoseconds of the time in which a process must end after its parent has ended.
inline constexpr int64_t orphan_ns_max = 10'000'000'000;

class orphan_watch {
 public:
  /// Starts the thread. `place`: number of this process, for the error message.
  explicit orphan_watch(uint32_t place);
  ~orphan_watch();
  orphan_watch(const orphan_watch&) = delete;
  orphan_watch& operator=(const orphan_watch&) = delete;

 private:
  void watch(uint32_t place);

  const pid_t parent_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace troupe::apps
