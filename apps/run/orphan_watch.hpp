// A process of a job must not outlive whoever started it: a rank may hang where nothing interrupts it (a driver, a
// disk), with locks that whoever comes next needs. Owns the thread that looks, and the end.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace troupe::apps {

/// How long a process may take to end once its parent is gone.
inline constexpr int64_t orphan_ns_max = 10'000'000'000;

class orphan_watch {
 public:
  /// `place`: for the sentence that is said.
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
