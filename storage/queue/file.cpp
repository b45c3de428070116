#include "storage/queue/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <limits>

#include "core/system_error.hpp"
#include "storage/queue/transfer.hpp"

namespace troupe::storage {

namespace {

core::error open_failure(const std::filesystem::path& path, file_access access, int errno_value) {
  const bool reads = access == file_access::read || access == file_access::read_regular;
  const bool creates = access == file_access::create || access == file_access::create_new;
  return core::path_error(creates ? "create" : reads ? "read" : "open", path, errno_value);
}

// Returns the alignment of direct I/O by trial, for kernels (before 6.1) and file systems that do not report it: the
// smallest usual sector size at which a read is not refused. An empty file refuses no read, so 4096 is returned for it,
// which every disk accepts.
transfer_alignment probe(int descriptor) {
  constexpr uint32_t safe = 4096;
  struct stat about {};
  if (::fstat(descriptor, &about) != 0 || about.st_size < static_cast<off_t>(safe)) return {safe, safe};
  void* memory = nullptr;
  if (::posix_memalign(&memory, safe, 2 * size_t{safe}) != 0) return {safe, safe};
  transfer_alignment out{safe, safe};
  for (uint32_t sector = 512; sector < safe; sector *= 2) {
    if (::pread(descriptor, static_cast<std::byte*>(memory) + sector, sector, sector) < 0) continue;
    out = {sector, sector};
    break;
  }
  std::free(memory);
  return out;
}

// Returns the alignment of direct I/O on the file. A memory alignment of 0 means that the file system has no direct I/O
// on this file.
transfer_alignment alignment_of(int descriptor) {
#ifdef STATX_DIOALIGN
  struct statx about {};
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) == 0 && (about.stx_mask & STATX_DIOALIGN) != 0)
    return {about.stx_dio_mem_align, about.stx_dio_offset_align};
#endif
  return probe(descriptor);
}

}  // namespace

std::string describe(file_mode mode) { return mode == file_mode::direct ? "direct" : "buffered"; }

file::handle::~handle() {
  if (descriptor >= 0) ::close(descriptor);
}

file file::adopt(int descriptor, const std::filesystem::path& path, file_mode mode) {
  static std::atomic<uint64_t> opened{0};
  file out;
  out.handle_ = std::make_shared<handle>();
  out.handle_->descriptor = descriptor;
  out.handle_->identity = ++opened;
  out.handle_->path = path;
  out.handle_->mode = mode;
  return out;
}

core::result<file> file::open(const std::filesystem::path& path, file_access access, file_mode mode,
                              mode_t permissions) {
  const bool direct = mode == file_mode::direct;
  const bool reads = access == file_access::read || access == file_access::read_regular;
  int flags = O_CLOEXEC | (reads ? O_RDONLY : O_RDWR);
  if (access == file_access::create) flags |= O_CREAT;
  if (access == file_access::create_new) flags |= O_CREAT | O_EXCL;
  if (access == file_access::read_regular) flags |= O_NOFOLLOW | O_NONBLOCK;
  // O_TRUNC is not used: the file is emptied at the end, so that a refused O_DIRECT does not destroy the content.
  int descriptor = -1;
  do descriptor = ::open(path.c_str(), flags | (direct ? O_DIRECT : 0), permissions);
  while (descriptor < 0 && errno == EINTR);
  const auto no_direct = [&](const std::string& why) {
    return core::fail(core::error_kind::mismatch,
                      path.string() + ": the file system does not support direct I/O here: " + why);
  };
  if (descriptor < 0) {
    const int why = errno;
    if (!direct || why != EINVAL) return core::fail(open_failure(path, access, why));
    // Linux creates the file before it refuses to open it with O_DIRECT.
    if (access == file_access::create_new) ::unlink(path.c_str());
    return no_direct(core::system_message(why));
  }
  file out = adopt(descriptor, path, mode);
  struct stat about {};
  const bool known = ::fstat(descriptor, &about) == 0;
  if (access == file_access::read_regular && known && !S_ISREG(about.st_mode))
    return core::fail(core::error_kind::bad_input, "cannot read '" + path.string() + "': a regular file was wanted");
  if (known && S_ISDIR(about.st_mode)) return core::fail(open_failure(path, access, EISDIR));
  if (direct) {
    out.handle_->alignment = alignment_of(descriptor);
    const auto& wants = out.handle_->alignment;
    if (wants.memory_bytes == 0 || wants.offset_bytes == 0 || wants.memory_bytes > alignment_bytes_max ||
        wants.offset_bytes > alignment_bytes_max) {
      if (access == file_access::create_new) ::unlink(path.c_str());
      return no_direct(fmt::format("it requires an alignment of {} bytes", wants.offset_bytes));
    }
  }
  if (access == file_access::create && ::ftruncate(descriptor, 0) != 0)
    return core::fail(open_failure(path, access, errno));
  return out;
}

core::result<file> file::open_best(const std::filesystem::path& path, file_access access, mode_t permissions) {
  auto out = open(path, access, file_mode::direct, permissions);
  if (out || out.error().kind != core::error_kind::mismatch) return out;
  return open(path, access, file_mode::buffered, permissions);
}

core::result<file> file::reopened(file_access access, file_mode mode) const {
  auto out = open(fmt::format("/proc/self/fd/{}", descriptor()), access, mode);
  if (out) {
    out->handle_->path = path();
    return out;
  }
  if (::access("/proc/self/fd", F_OK) == 0) return out;
  auto by_name = open(path(), access, mode);  // without /proc, opens by name, and checks that it is the same file
  struct stat mine {
  }, its{};
  const bool is_same = by_name && ::fstat(descriptor(), &mine) == 0 && ::fstat(by_name->descriptor(), &its) == 0 &&
                       mine.st_dev == its.st_dev && mine.st_ino == its.st_ino;
  return is_same ? std::move(by_name) : std::move(out);
}

core::result<file> file::in_memory(const std::string& name) {
  const int descriptor = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (descriptor < 0) return core::fail(open_failure(name, file_access::create, errno));
  return adopt(descriptor, name, file_mode::buffered);
}

core::error file::failure(const std::string& what, int errno_value) const {
  return {core::kind_of_write_error(errno_value),
          path().string() + ": " + what + ": " + core::system_message(errno_value)};
}

core::result<uint64_t> file::size_bytes() const {
  struct stat about {};
  if (::fstat(descriptor(), &about) != 0) return core::fail(failure("size", errno));
  return static_cast<uint64_t>(about.st_size);
}

core::result<uint64_t> file::read_at(uint64_t offset, std::span<std::byte> into) const {
  transfer all(read_request(*this, offset, into));
  return all.run();
}

core::result<void> file::write_at(uint64_t offset, std::span<const std::byte> from) const {
  transfer all(write_request(*this, offset, from));
  TROUPE_TRY(all.run());
  return {};
}

core::result<bool> file::preallocate(uint64_t bytes) const {
  const std::string what = fmt::format("preallocate {} bytes", bytes);
  if (bytes > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) return core::fail(failure(what, EFBIG));
  if (bytes == 0) return true;
  int answer = 0;
  do answer = ::fallocate(descriptor(), 0, 0, static_cast<off_t>(bytes));
  while (answer != 0 && errno == EINTR);
  if (answer == 0) return true;
  if (errno != EOPNOTSUPP && errno != ENOSYS) return core::fail(failure(what, errno));
  TROUPE_ASSIGN(const auto now, size_bytes());
  if (now < bytes) TROUPE_TRY(truncate(bytes));
  return false;
}

core::result<void> file::truncate(uint64_t bytes) const {
  const std::string what = fmt::format("truncate to {} bytes", bytes);
  if (bytes > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) return core::fail(failure(what, EFBIG));
  int answer = 0;
  do answer = ::ftruncate(descriptor(), static_cast<off_t>(bytes));
  while (answer != 0 && errno == EINTR);
  if (answer != 0) return core::fail(failure(what, errno));
  return {};
}

core::result<void> file::sync() const {
  int answer = 0;
  do answer = ::fdatasync(descriptor());
  while (answer != 0 && errno == EINTR);
  if (answer != 0) return core::fail(failure("sync", errno));
  return {};
}

}  // namespace troupe::storage
