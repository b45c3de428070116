// A session of Python, and the rules of its calls: one at a time, on a thread of its own, without the GIL. Shared by
// the sources of the module `troupe._training`, which own the functions.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "apps/python/interruptible.hpp"
#include "apps/python/python_error.hpp"
#include "apps/python/training/training_session.hpp"

namespace troupe::apps {

/// A session, and what Python may ask of it while another thread is in a call. The GIL guards the members, except for
/// `work`, which belongs to the call that has set `is_busy`.
struct python_session {
  training_session work;
  bool is_busy = false;     ///< true: a call runs
  bool is_closing = false;  ///< true: close() was called
  uint64_t steps_done = 0;  ///< number of steps done when the last call ended
};

/// Throws a python_error (bad_input) with this text.
[[noreturn]] void refuse_call(const std::string& why);

/// Takes the session for one call, and refuses a second call meanwhile, and every call of a closed session.
class call_scope {
 public:
  call_scope(python_session& s, const char* name);
  ~call_scope();
  call_scope(const call_scope&) = delete;
  call_scope& operator=(const call_scope&) = delete;

 private:
  python_session& session_;
};

/// Passes warnings to Python's warnings, and lines that the configuration asks for to the logger `troupe`.
/// `of_the_caller` is the stack level of the function that called training.py.
void tell(training_session& s, int of_the_caller = 2);

/// Runs `work` on an open session, on a thread of its own and without the GIL, and returns its value. The first Ctrl-C
/// lets the work end and raises KeyboardInterrupt; the second one stops the session.
template <class Work>
auto call(python_session& s, const char* name, const Work& work) {
  const call_scope held(s, name);
  const auto run = [&] {
    return interruptible([&](const storage::progress_function& goes_on) { return work(s.work, goes_on); },
                         [&] { s.work.session().stop("interrupted twice"); });
  };
  try {
    if constexpr (std::is_void_v<decltype(run())>) {
      run();
      tell(s.work);
    } else {
      auto out = run();
      tell(s.work);
      return out;
    }
  } catch (...) {
    tell(s.work);
    throw;
  }
}

/// Returns a tuple of the numbers of a shape.
nanobind::tuple shape_tuple(const std::vector<int64_t>& shape);

/// Returns the number, or None.
nanobind::object number_or_none(const std::optional<double>& x);

using session_class = nanobind::class_<python_session>;
/// Add the functions of their source to the class.
void add_states(session_class& c);
void add_own_loop(session_class& c);
void add_kept_run(session_class& c);

}  // namespace troupe::apps
