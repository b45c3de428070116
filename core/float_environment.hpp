// Owns the floating-point environment in which results are computed: no traps, rounding to nearest, subnormal numbers
// kept. A host program may run with traps on (feenableexcept) or with subnormals flushed to zero, and a thread inherits
// the environment of the thread that creates it.
#pragma once

#include <cfenv>

namespace troupe::core {

/// Sets the default environment for a host's thread during a call, and restores the host's environment afterwards.
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

/// Sets the default environment for the calling thread, which a lane owns, for good. Only the first call has a cost.
inline void keep_usual_float_environment() {
  thread_local bool kept = false;
  if (!kept) std::fesetenv(FE_DFL_ENV);
  kept = true;
}

}  // namespace troupe::core
