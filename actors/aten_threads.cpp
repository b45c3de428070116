#include "actors/aten_threads.hpp"

#include <ATen/Parallel.h>

#include <mutex>

namespace troupe::actors {
namespace {

std::mutex mutex;
int scopes = 0;
int before = 1;

}  // namespace

one_aten_thread::one_aten_thread() {
  const std::lock_guard lock(mutex);
  if (scopes++ == 0) before = at::get_num_threads();
  at::set_num_threads(1);  // each time: OpenMP keeps a number per calling thread
}

one_aten_thread::~one_aten_thread() {
  const std::lock_guard lock(mutex);
  if (--scopes == 0) at::set_num_threads(before);
}

}  // namespace troupe::actors
