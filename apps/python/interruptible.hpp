// Runs long work for Python, so that other Python threads continue and Ctrl-C ends the work. Owns the working thread.
// Leaves signals to Python.
#pragma once

#include <functional>
#include <optional>
#include <type_traits>

#include "apps/python/python_error.hpp"
#include "storage/files/progress.hpp"

namespace troupe::apps {

/// Runs `work` on its own thread. The caller holds the GIL and waits without it. The function passed to `work` returns
/// false once a signal handler of Python has raised an exception, as Ctrl-C does; the exception is raised when `work`
/// has ended. `on_second` is called, with the GIL, when a handler has raised a second exception meanwhile; empty: such
/// an exception waits until `work` has ended.
void run_interruptibly(const std::function<void(const storage::progress_function& goes_on)>& work,
                       const std::function<void()>& on_second = {});

/// Runs `work` with run_interruptibly(). Returns its value, or throws its error.
template <class Work>
auto interruptible(const Work& work, const std::function<void()>& on_second = {}) {
  std::optional<std::invoke_result_t<Work, const storage::progress_function&>> out;
  run_interruptibly([&](const storage::progress_function& goes_on) { out.emplace(work(goes_on)); }, on_second);
  return value_or_throw(std::move(*out));
}

}  // namespace troupe::apps
