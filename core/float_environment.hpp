// The floating-point environment that results are computed in: no traps, rounding to nearest, subnormal numbers as they
// are. A host program may run with traps on (feenableexcept) or with subnormals cut off, and a thread begins with the
// environment of the one that makes it.
#pragma once

#include <cfenv>

namespace troupe::core {

/// For a host's thread while it is in a call: puts the host's environment back.
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

/// For a lane's own thread, once and for all. Free after the first call.
inline void keep_usual_float_environment() {
  thread_local bool kept = false;
  if (!kept) std::fesetenv(FE_DFL_ENV);
  kept = true;
}

}  // namespace troupe::core
