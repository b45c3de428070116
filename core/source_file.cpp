#include "core/source_file.hpp"

#include <fmt/format.h>

namespace troupe::core {

result<std::string> source_file::read_all(uint64_t max_bytes) const {
  if (size_ > max_bytes)
    return refused(error_kind::limit, fmt::format("{} bytes, at most {} are read", size_, max_bytes));
  std::string out(size_, '\0');
  TROUPE_TRY(read(0, std::as_writable_bytes(std::span(out))));
  return out;
}

result<void> source_file::read_from(int fd, uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(begin_ + offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refused(error_kind::io, system_message(errno));
    if (n == 0)
      return refused(error_kind::io,
                     fmt::format("it had {} bytes when it was opened and has become shorter: it ends before byte {}",
                                 size_, offset));
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

}  // namespace troupe::core
