#include "storage/memory/huge_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "core/math.hpp"

namespace troupe::storage {

core::result<huge_memory> huge_memory::allocate(uint64_t bytes) {
  huge_memory out;
  if (bytes == 0) return out;
  // Pools below 2 MiB use ordinary pages: rounded up to 2 MiB, they would be most of the memory of a small model.
  const uint64_t room = core::round_up(bytes, 4096);
  const uint64_t align = bytes < alignment_bytes ? 4096 : alignment_bytes;
  const uint64_t span = room + (align > 4096 ? align : 0);
  void* raw = ::mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED)
    return core::fail(core::error_kind::limit,
                      fmt::format("memory: wanted {} bytes for a pool: {}", bytes, std::strerror(errno)));
  auto* base = static_cast<std::byte*>(raw);
  const auto at = reinterpret_cast<uintptr_t>(base);
  const uint64_t head = core::round_up(at, align) - at;
  if (head > 0) ::munmap(base, head);
  if (span - head > room) ::munmap(base + head + room, span - head - room);
  out.data_ = base + head;
  out.bytes_ = room;
  if (align > 4096) ::madvise(out.data_, room, MADV_HUGEPAGE);
  return out;
}

bool huge_memory::discard() const { return data_ != nullptr && ::madvise(data_, bytes_, MADV_DONTNEED) == 0; }

huge_memory::~huge_memory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace troupe::storage
