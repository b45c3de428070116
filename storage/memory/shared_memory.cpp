#include "storage/memory/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/math.hpp"

namespace troupe::storage {
namespace {

constexpr uint64_t page_bytes = 4096;
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

tl::unexpected<core::error> refused(uint64_t bytes) {
  return core::fail(core::error_kind::limit, fmt::format("shared memory: wanted {} bytes that processes share: {}",
                                                         bytes, std::strerror(errno)));
}

}  // namespace

core::result<void> shared_memory::map(uint64_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (at == MAP_FAILED) return refused(bytes);
  data_ = static_cast<std::byte*>(at);
  bytes_ = bytes;
  ::madvise(data_, bytes, MADV_HUGEPAGE);  // has an effect only where the system allows it
  return {};
}

core::result<shared_memory> shared_memory::create(uint64_t bytes) {
  shared_memory out;
  if (bytes == 0) return out;
  const uint64_t room = core::round_up(bytes, page_bytes);
  out.descriptor_ = ::memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (out.descriptor_ < 0 || ::ftruncate(out.descriptor_, static_cast<off_t>(room)) != 0 ||
      ::fcntl(out.descriptor_, F_ADD_SEALS, size_seals | F_SEAL_SEAL) != 0)
    return refused(bytes);
  TROUPE_TRY(out.map(room));
  return out;
}

core::result<shared_memory> shared_memory::open(int descriptor) {
  shared_memory out;
  out.descriptor_ = descriptor;
  struct stat facts {};
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  // The size must be sealed: if another process truncated the memory, an access to the mapping would end this process.
  if (seals < 0 || (seals & size_seals) != size_seals || ::fstat(descriptor, &facts) != 0)
    return core::fail(core::error_kind::bad_input, "shared memory: wanted a descriptor of memory with a sealed size");
  const auto bytes = static_cast<uint64_t>(facts.st_size);
  if (bytes == 0 || bytes % page_bytes != 0)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("shared memory: wanted a multiple of 4096 bytes, got {}", bytes));
  TROUPE_TRY(out.map(bytes));
  return out;
}

shared_memory::~shared_memory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace troupe::storage
