#include "tests/counted_memory.hpp"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace troupe::tests {

std::atomic<size_t> live_bytes{0};
std::atomic<size_t> peak_bytes{0};
std::atomic<size_t> asked_bytes{0};

}  // namespace troupe::tests

using troupe::tests::asked_bytes;
using troupe::tests::live_bytes;
using troupe::tests::peak_bytes;

// Counts the memory of the whole test program; tests read the counters through counted_memory.hpp.
void* operator new(size_t bytes) {
  void* p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  asked_bytes += bytes;
  const size_t now = live_bytes += ::malloc_usable_size(p);
  size_t seen = peak_bytes;
  while (now > seen && !peak_bytes.compare_exchange_weak(seen, now)) {
  }
  return p;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* p) noexcept {
  if (p != nullptr) live_bytes -= ::malloc_usable_size(p);
  std::free(p);
}
void operator delete(void* p, size_t) noexcept { ::operator delete(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { ::operator delete(p); }
