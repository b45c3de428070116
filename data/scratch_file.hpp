// A temporary file without a name, for data that are too large for memory and not needed after the process. Owns the
// file's descriptor.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "core/system_error.hpp"

namespace troupe::data {

/// A nameless file, removed by the kernel when its last descriptor closes, however the process ends.
class scratch_file {
 public:
  scratch_file() = default;
  scratch_file(scratch_file&& other) noexcept : fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_) {}
  scratch_file& operator=(scratch_file&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  ~scratch_file() {
    if (fd_ >= 0) ::close(fd_);
  }

  static core::result<scratch_file> create(const std::filesystem::path& folder) {
    std::string name = (folder / "troupe-text-XXXXXX").string();
    scratch_file out;
    out.fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (out.fd_ < 0)
      return core::fail(core::error_kind::io,
                        "cannot write a scratch file in '" + folder.string() + "': " + core::system_message(errno));
    ::unlink(name.c_str());
    return out;
  }

  /// Makes a scratch_file of the open file `descriptor`, and takes ownership of the descriptor.
  static scratch_file of(int descriptor) {
    scratch_file out;
    out.fd_ = descriptor;
    return out;
  }

  core::result<void> append(std::span<const std::byte> bytes) {
    bytes_ += bytes.size();
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0)
        return core::fail(core::kind_of_write_error(errno),
                          "cannot write the expanded text to the scratch folder: " + core::system_message(errno));
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

  /// Returns a second descriptor of the file, which the caller must close; the descriptor is closed on exec. Errors:
  /// limit.
  [[nodiscard]] core::result<int> duplicate() const {
    const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0) return fd;
    return core::fail(core::error_kind::limit,
                      "cannot duplicate the descriptor of a scratch file: " + core::system_message(errno));
  }

  /// Returns the file's contents from byte `begin` on, as a source_file with a descriptor of its own, so that it stays
  /// readable when this object is destroyed; `name` is for errors.
  [[nodiscard]] core::result<core::source_file> content(const std::string& name, uint64_t begin = 0) const {
    const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
      return core::fail(core::error_kind::limit, "cannot read '" + name + "': " + core::system_message(errno));
    return core::source_file::of(fd, name, begin);
  }

 private:
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

}  // namespace troupe::data
