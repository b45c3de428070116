// A file as read-only memory. Owns the mapping; what the bytes mean is the reader's business.
// Truncating a file under its mapping is the owner's fault and ends the process, as with any mapping.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::core {

/// Read-only bytes of a whole regular file, mapped privately. Movable, shareable between threads.
class mapped_file {
 public:
  mapped_file() = default;
  mapped_file(mapped_file&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  mapped_file& operator=(mapped_file&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }

  /// Fails where the path cannot be opened or is no regular file (a pipe is refused, not waited for).
  static result<mapped_file> open(const std::filesystem::path& path, int extra_flags = 0) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | extra_flags);
    if (fd < 0) return refused(kind_of(errno), path.string(), system_message(errno));
    auto mapped = of(fd, path.string());
    ::close(fd);
    return mapped;
  }

  /// Maps what an open descriptor holds now; `name` is for errors. The descriptor may be closed afterwards.
  static result<mapped_file> of(int fd, const std::string& name) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) return refused(error_kind::io, name, system_message(errno));
    if (!S_ISREG(status.st_mode)) return refused(error_kind::bad_input, name, "a regular file was wanted");
    mapped_file out;
    if (status.st_size == 0) return out;
    const auto size = static_cast<size_t>(status.st_size);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return refused(error_kind::io, name, system_message(errno));
    out.data_ = data;
    out.size_ = size;
    return out;
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  static tl::unexpected<error> refused(error_kind kind, const std::string& name, const std::string& why) {
    return fail(kind, std::string("cannot read '").append(name).append("': ").append(why));
  }
  static error_kind kind_of(int number) {
    return number == ENOENT || number == EACCES || number == ENOTDIR || number == ELOOP ? error_kind::bad_input
                                                                                        : error_kind::io;
  }

  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace troupe::core
