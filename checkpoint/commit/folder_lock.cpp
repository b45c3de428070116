// Locks with flock(2): the lock belongs to the open file, so that no other open or close in the process can release it.
#include "checkpoint/commit/folder_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/system/dangling_link.hpp"
#include "core/system/lock_holder.hpp"
#include "core/system_error.hpp"
#include "storage/files/file_system.hpp"
#include "storage/files/working_folder.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Maximum number of attempts to lock a folder that another process removes at the same time.
constexpr int max_vanished_folders = 100;

}  // namespace

folder_lock::folder_lock(fs::path root, int fd) : root_(std::move(root)), fd_(fd) {}

folder_lock::folder_lock(folder_lock&& other) noexcept
    : root_(std::move(other.root_)), fd_(std::exchange(other.fd_, -1)), objection_(std::move(other.objection_)) {}

folder_lock& folder_lock::operator=(folder_lock&& other) noexcept {
  if (this != &other) {
    release();
    root_ = std::move(other.root_);
    fd_ = std::exchange(other.fd_, -1);
    objection_ = std::move(other.objection_);
  }
  return *this;
}

folder_lock::~folder_lock() { release(); }

void folder_lock::release() {
  if (fd_ < 0) return;
  (void)!::ftruncate(fd_, 0);  // erases the process id of this holder from the file
  ::close(std::exchange(fd_, -1));
}

core::result<folder_lock> folder_lock::take(const fs::path& root, std::string_view purpose) {
  for (int i = 0; i < max_vanished_folders; ++i) {
    TROUPE_ASSIGN(auto taken, try_take(root, purpose));
    if (taken) return std::move(*taken);
    if (const auto link = core::dangling_link_in(root)) return fail(error_kind::bad_input, *link);
  }
  return fail(error_kind::io, fmt::format("cannot lock '{}': it is removed again and again", root.string()));
}

bool folder_lock::is_in_place() const {
  struct stat mine {
  }, named{};
  return fd_ >= 0 && ::fstat(fd_, &mine) == 0 && ::lstat((root_ / lock_file_name).c_str(), &named) == 0 &&
         mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

bool folder_lock::is_held(const fs::path& root) {
  const fs::path path = root / lock_file_name;
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool held = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

/// Tries to take the lock once; nothing if the folder was removed meanwhile.
core::result<std::optional<folder_lock>> folder_lock::try_take(const fs::path& root, std::string_view purpose) {
  TROUPE_TRY(storage::make_folders(storage::real_files(), root));
  const fs::path path = root / lock_file_name;
  // Created with mode 0666: any user who may write to the folder may be the next to lock it.
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (fd < 0 && errno == ELOOP)
    return fail(error_kind::bad_input,
                fmt::format("cannot lock '{}': it is a link, which is not followed; remove it", path.string()));
  if (fd < 0 && errno == ENOENT) return std::nullopt;
  if (fd < 0) {
    auto why = core::path_error("open the lock", path, errno);
    struct stat there {};
    if (errno == EACCES && ::lstat(path.c_str(), &there) == 0)
      why.text +=
          fmt::format("; it belongs to user {}: remove it if no run of that user uses the folder", there.st_uid);
    return fail(std::move(why));
  }
  folder_lock out(root, -1);  // the file belongs to `out` only once it is locked, because release() truncates it
  const auto give_up = [fd](auto error) {
    ::close(fd);
    return error;
  };
  struct stat status {};
  if (::fstat(fd, &status) != 0) return give_up(fail(core::path_error("look at", path, errno)));
  if (!S_ISREG(status.st_mode))
    return give_up(fail(error_kind::bad_input,
                        fmt::format("cannot lock '{}': it is not a regular file; remove it", path.string())));
  int locked = 0;
  do locked = ::flock(fd, LOCK_EX | LOCK_NB);
  while (locked != 0 && errno == EINTR);
  if (locked != 0 && errno == EWOULDBLOCK)
    return give_up(
        fail(error_kind::bad_input,
             fmt::format(
                 "'{}' is in use: {} {} there (it holds the lock on '{}'); wait until it ends, or use another folder",
                 root.string(), core::lock_holder(fd), purpose, path.string())));
  if (locked != 0 && !core::is_without_locks(errno)) return give_up(fail(core::path_error("lock", path, errno)));
  if (locked != 0)
    out.objection_ = fmt::format(
        "'{}': the file system does not support locks ({}), so other runs cannot be kept from writing there; make sure "
        "that only one run writes to this folder",
        root.string(), core::system_message(errno));
  struct stat named {};
  if (::lstat(path.c_str(), &named) != 0 || named.st_ino != status.st_ino || named.st_dev != status.st_dev)
    return give_up(std::optional<folder_lock>());
  out.fd_ = fd;
  core::write_lock_holder(fd);
  return std::optional(std::move(out));
}

core::result<claimed_folder> claim_folder(const fs::path& root) {
  TROUPE_ASSIGN(auto lock, folder_lock::take(root));
  TROUPE_ASSIGN(auto left, remove_leftovers(storage::real_files(), root));
  return claimed_folder{std::move(lock), std::move(left)};
}

}  // namespace troupe::checkpoint
