// Vectors in memory that is shared with forked processes, at the same addresses as in this process.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "fabric/shared/address_space.hpp"

namespace troupe::tests {

template <class T>
struct shared_allocator {
  using value_type = T;
  shared_allocator() = default;
  template <class U>
  shared_allocator(const shared_allocator<U>&) {}  // NOLINT: an allocator must convert implicitly

  T* allocate(size_t n) {
    void* const at = ::mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    return static_cast<T*>(at);
  }
  void deallocate(T* at, size_t n) { ::munmap(at, n * sizeof(T)); }
  bool operator==(const shared_allocator&) const { return true; }
};

template <class T>
using shared_vector = std::vector<T, shared_allocator<T>>;

/// Returns an address space in which all addresses are one segment, because memory shared with forked processes has the
/// same address in each of them.
inline std::shared_ptr<const fabric::address_space> same_addresses() {
  const auto all = std::make_shared<fabric::address_space>();
  // NOLINTNEXTLINE: an address space, not an object
  if (!all->add(0, {reinterpret_cast<std::byte*>(4096), (size_t{1} << 47U) - 8192})) throw std::bad_alloc();
  return all;
}

}  // namespace troupe::tests
