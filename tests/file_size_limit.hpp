// Limits the size of every file that this process writes during the lifetime of an object, to simulate a full disk.
#pragma once

#include <sys/resource.h>

#include <csignal>
#include <stdexcept>

namespace troupe::tests {

class file_size_limit {
 public:
  explicit file_size_limit(uint64_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    if (::getrlimit(RLIMIT_FSIZE, &old_) != 0) throw std::runtime_error("getrlimit");
    rlimit now = old_;
    now.rlim_cur = bytes;
    if (::setrlimit(RLIMIT_FSIZE, &now) != 0) throw std::runtime_error("setrlimit");
  }
  ~file_size_limit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  file_size_limit(const file_size_limit&) = delete;
  file_size_limit& operator=(const file_size_limit&) = delete;

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

}  // namespace troupe::tests
