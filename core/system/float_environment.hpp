// Defines the floating-point environment in which results are computed: no traps, rounding to nearest, subnormal
// numbers kept. A host program may run with traps on (feenableexcept) or with subnormals flushed to zero, and a thread
// inherits the environment of the thread that creates it.
#pragma once

#include <cfenv>

namespace troupe::core {

/// Sets the default floating-point environment in a thread of the host program while the object exists; the destructor
/// restores the host's environment.
class usual_float_environment {
 public:
  usual_float_environment() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~usual_float_environment() { std::fesetenv(&before_); }
  usual_float_environment(const usual_float_environment&) = delete;
  usual_float_environment& operator=(const usual_float_environment&) = delete;

 private:
  std::fenv_t before_{};
};

/// Sets the default floating-point environment in the calling thread permanently. Only a thread that runs nothing but
/// Troupe's work (a lane's thread, a worker) may call it; a thread of the host program uses usual_float_environment.
/// Only a thread's first call has a cost.
inline void keep_usual_float_environment() {
  thread_local bool kept = false;
  if (!kept) std::fesetenv(FE_DFL_ENV);
  kept = true;
}

}  // namespace troupe::core
