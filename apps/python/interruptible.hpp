// Long work for Python: other threads of Python run meanwhile, and Ctrl-C ends it. Owns the thread that works; which
// signals there are, and what they do, is Python's.
#pragma once

#include <functional>
#include <optional>
#include <type_traits>

#include "apps/python/python_error.hpp"
#include "checkpoint/files/progress.hpp"

namespace troupe::apps {

/// Runs `work` on a thread of its own; the caller, who holds the GIL, waits without it. The function that `work` gets
/// says false once a handler of Python's has raised something, as Ctrl-C does; when `work` has ended that is raised.
void run_interruptibly(const std::function<void(const checkpoint::progress_function& goes_on)>& work);

/// The value of `work`, run so; its error thrown.
template <class Work>
auto interruptible(const Work& work) {
  std::optional<std::invoke_result_t<Work, const checkpoint::progress_function&>> out;
  run_interruptibly([&](const checkpoint::progress_function& goes_on) { out.emplace(work(goes_on)); });
  return value_or_throw(std::move(*out));
}

}  // namespace troupe::apps
