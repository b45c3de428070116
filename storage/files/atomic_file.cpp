// Implements atomic_file with open, write, fsync, rename and an fsync of the folder.
#include "storage/files/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "core/system_error.hpp"

namespace troupe::storage {
namespace {

namespace fs = std::filesystem;

/// The largest number of working files of one target that may be left over; create() fails beyond it.
constexpr int max_leftover_parts = 10'000;

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

}  // namespace

atomic_file::atomic_file(fs::path target, fs::path part, int fd)
    : target_(std::move(target)), part_(std::move(part)), fd_(fd) {}

atomic_file::atomic_file(atomic_file&& other) noexcept
    : target_(std::move(other.target_)),
      part_(std::exchange(other.part_, fs::path())),
      fd_(std::exchange(other.fd_, -1)) {}

atomic_file::~atomic_file() {
  if (fd_ >= 0) ::close(fd_);
  if (!part_.empty()) ::unlink(part_.c_str());
}

tl::unexpected<core::error> atomic_file::failed(int system_error) const {
  return fail(core::kind_of_write_error(system_error),
              fmt::format("cannot write '{}': {}", target_.string(), core::system_message(system_error)));
}

core::result<atomic_file> atomic_file::create(const fs::path& target) {
  // mkstemp() is not used, because it makes files that only the owner may read, but an export must obey the umask.
  static std::atomic<uint64_t> count = 0;
  for (int attempt = 0; attempt < max_leftover_parts; ++attempt) {
    const auto name = fmt::format(".{}.{}-{}.part", target.filename().string(), ::getpid(), count.fetch_add(1));
    const fs::path part = folder_of(target) / name;
    const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return atomic_file(target, part, fd);
    // A file with this name is left from a crashed process with the same process id: the next count is tried.
    if (errno != EEXIST) return atomic_file(target, fs::path(), -1).failed(errno);
  }
  return atomic_file(target, fs::path(), -1).failed(EEXIST);
}

core::result<void> atomic_file::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

core::result<void> atomic_file::sync() {
  if (fd_ < 0) return {};
  if (::fsync(fd_) != 0) return failed(errno);
  // On some file systems close() is the first call that reports a full disk.
  if (::close(std::exchange(fd_, -1)) != 0) return failed(errno);
  return {};
}

core::result<void> atomic_file::commit(durability when) {
  if (when == durability::in_time) {
    if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0) return failed(errno);
  } else if (auto ok = sync(); !ok) {
    return ok;
  }
  if (::rename(part_.c_str(), target_.c_str()) != 0) return failed(errno);
  part_.clear();
  return when == durability::in_time ? core::result<void>{} : sync_folder(folder_of(target_));
}

namespace {

/// Syncs the folder; returns 0 or the errno of the failure.
int try_to_sync(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int number = fd >= 0 && ::fsync(fd) == 0 ? 0 : errno;
  if (fd >= 0) ::close(fd);
  return number;
}

/// True if the errno means that the file system cannot sync folders. Network file systems such as CIFS cannot: when
/// names reach the disk is up to the server.
bool knows_no_sync(int number) { return number == EINVAL || number == ENOSYS || number == EOPNOTSUPP; }

}  // namespace

bool syncs_folders(const fs::path& folder) { return !knows_no_sync(try_to_sync(folder)); }

core::result<void> sync_folder(const fs::path& folder) {
  const int number = try_to_sync(folder);
  if (number == 0 || knows_no_sync(number)) return {};
  return fail(core::kind_of_write_error(number),
              fmt::format("cannot sync the folder '{}': {}", folder.string(), core::system_message(number)));
}

core::result<void> write_file_atomically(const fs::path& target, std::string_view text) {
  TROUPE_ASSIGN(auto file, atomic_file::create(target));
  TROUPE_TRY(file.write(text));
  return file.commit();
}

}  // namespace troupe::storage
