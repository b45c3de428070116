#include "actors/aten_threads.hpp"

#include <ATen/Parallel.h>

#include <future>
#include <mutex>
#include <system_error>
#include <thread>

namespace troupe::actors {
namespace {

std::mutex mutex;

/// Sets the number of ATen threads for the calling thread only. at::set_num_threads() sets two numbers: the calling
/// thread's number, and the initial number of threads that use ATen later. A temporary thread restores the second
/// number; its own number ends with it.
void set_here_only(int threads) {
  const std::lock_guard lock(mutex);
  std::promise<void> known, changed;
  std::thread other;
  try {
    other = std::thread([&known, change = changed.get_future()]() mutable {
      const int everywhere = at::get_num_threads();
      known.set_value();
      change.wait();
      at::set_num_threads(everywhere);
    });
    known.get_future().wait();
  } catch (const std::system_error&) {  // no thread is available: the session will not get its own threads either
  }
  at::set_num_threads(threads);
  if (!other.joinable()) return;
  changed.set_value();
  other.join();
}

/// Makes the calling thread use the process's number of ATen threads: once for LibTorch, and once for code outside of
/// it into which ATen's header is compiled, such as a host's at::parallel_for(). Both must happen before the number is
/// changed; a later initialisation would undo the change.
void take_over() {
  (void)at::get_num_threads();
  at::internal::lazy_init_num_threads();
}

}  // namespace

one_aten_thread::one_aten_thread() : before_(at::get_num_threads()) {
  take_over();
  if (at::get_num_threads() > 1) set_here_only(1);
}

one_aten_thread::~one_aten_thread() {
  if (at::get_num_threads() != before_) set_here_only(before_);
}

void keep_to_one_aten_thread() {
  thread_local bool kept = false;
  if (kept) return;
  kept = true;
  take_over();
  if (at::get_num_threads() > 1) set_here_only(1);
}

}  // namespace troupe::actors
