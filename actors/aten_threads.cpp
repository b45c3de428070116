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
/// thread's number, and the initial number of threads that use ATen later. A temporary thread therefore sets the
/// initial number back to its previous value, and then ends.
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
  } catch (const std::system_error&) {  // no thread is left, so no session can open: the initial number is not restored
  }
  at::set_num_threads(threads);
  if (!other.joinable()) return;
  changed.set_value();
  other.join();
}

/// Initialises the calling thread's number of ATen threads from the process's number, in both places that store it: in
/// LibTorch, and in code outside of LibTorch that has compiled ATen's header, such as an at::parallel_for() of the
/// host program. Must be called before the thread's number is changed, because a later initialisation would undo
/// the change.
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
