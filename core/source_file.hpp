// A regular file that other programs may change while it is read. Owns the descriptor and the promise that reading
// never ends the process: bytes are copied out of the file and never accessed through a mapping, because a mapped file
// that another program truncates raises SIGBUS. Leaves the meaning of the bytes to the reader.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/system_error.hpp"

namespace troupe::core {

/// An open file with the size that it had when it was opened. Movable; any number of threads may read.
class source_file {
 public:
  source_file() = default;
  source_file(source_file&& other) noexcept { swap(other); }
  source_file& operator=(source_file&& other) noexcept {
    swap(other);
    return *this;
  }
  source_file(const source_file&) = delete;
  source_file& operator=(const source_file&) = delete;
  ~source_file() {
    if (fd_ >= 0) ::close(fd_);
  }

  /// Opens a file. Fails if the path cannot be opened or is not a regular file (a pipe is refused without waiting for
  /// its writer).
  static result<source_file> open(const std::filesystem::path& path, int extra_flags = 0) {
    source_file out;
    out.name_ = path.string();
    out.flags_ = O_RDONLY | O_CLOEXEC | O_NONBLOCK | extra_flags;
    out.fd_ = ::open(path.c_str(), out.flags_);
    if (out.fd_ < 0) return out.refused(kind_of_path_error(errno), system_message(errno));
    return std::move(out).known();
  }

  /// Wraps an open descriptor, and takes ownership of it. Offset 0 of the result is byte `begin` of the file; `name` is
  /// for errors.
  static result<source_file> of(int fd, std::string name, uint64_t begin = 0) {
    source_file out;
    out.name_ = std::move(name);
    out.fd_ = fd;
    out.begin_ = begin;
    return std::move(out).known();
  }

  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  /// Reads bytes [offset, offset + out.size()), which must be within the size at opening. Errors (io): the file has
  /// become shorter since, or no longer exists.
  [[nodiscard]] result<void> read(uint64_t offset, std::span<std::byte> out) const {
    if (fd_ >= 0) return read_from(fd_, offset, out);
    if (out.empty()) return {};
    const int fd = ::open(name_.c_str(), flags_);
    if (fd < 0) return refused(error_kind::io, system_message(errno));
    struct stat now {};
    auto ok = ::fstat(fd, &now) == 0 && now.st_dev == device_ && now.st_ino == inode_
                  ? read_from(fd, offset, out)
                  : result<void>(refused(error_kind::io, "another file has taken its place since it was opened"));
    ::close(fd);
    return ok;
  }

  /// Returns the whole contents. Fails with limit if they exceed `max_bytes`.
  [[nodiscard]] result<std::string> read_all(uint64_t max_bytes) const;

  /// Closes the descriptor; every later read opens the file again, and fails if another file has replaced it.
  void close_between_reads() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  void swap(source_file& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(flags_, other.flags_);
    std::swap(begin_, other.begin_);
    std::swap(size_, other.size_);
    std::swap(device_, other.device_);
    std::swap(inode_, other.inode_);
    name_.swap(other.name_);
  }

  result<source_file> known() && {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) return refused(error_kind::io, system_message(errno));
    if (!S_ISREG(status.st_mode)) return refused(error_kind::bad_input, "a regular file was wanted");
    size_ = static_cast<uint64_t>(status.st_size) - begin_;
    device_ = status.st_dev;
    inode_ = status.st_ino;
    return std::move(*this);
  }

  [[nodiscard]] result<void> read_from(int fd, uint64_t offset, std::span<std::byte> out) const;

  [[nodiscard]] tl::unexpected<error> refused(error_kind kind, const std::string& why) const {
    return fail(kind, "cannot read '" + name_ + "': " + why);
  }

  int fd_ = -1, flags_ = O_RDONLY | O_CLOEXEC;
  uint64_t begin_ = 0, size_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::string name_;
};

/// Returns the whole contents of a small file. Fails with limit if they exceed `max_bytes`.
inline result<std::string> read_file(const std::filesystem::path& path, uint64_t max_bytes, int extra_flags = 0) {
  TROUPE_ASSIGN(const auto file, source_file::open(path, extra_flags));
  return file.read_all(max_bytes);
}

}  // namespace troupe::core
