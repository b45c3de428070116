// Locks the manifest with flock(2): shared for readers, exclusive for removal.
#include "checkpoint/commit/reading_mark.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "checkpoint/native/manifest.hpp"

namespace troupe::checkpoint {
namespace {

class locked_file {
 public:
  locked_file(const std::filesystem::path& path, int how)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) {
    if (fd_ < 0) return;
    int did = 0;
    do did = ::flock(fd_, how | LOCK_NB);
    while (did != 0 && errno == EINTR);
    held_ = did == 0;
    others_ = did != 0 && errno == EWOULDBLOCK;
  }
  ~locked_file() {
    if (fd_ >= 0) ::close(fd_);
  }
  locked_file(const locked_file&) = delete;
  locked_file& operator=(const locked_file&) = delete;

  [[nodiscard]] bool held() const { return held_; }
  [[nodiscard]] bool others_hold_it() const { return others_; }

 private:
  int fd_;
  bool held_ = false, others_ = false;
};

}  // namespace

std::shared_ptr<const void> mark_as_read(const std::filesystem::path& folder) {
  auto file = std::make_shared<const locked_file>(folder / manifest_file_name, LOCK_SH);
  return file->held() ? file : nullptr;
}

unread_claim claim_unread(const std::filesystem::path& folder) {
  auto file = std::make_shared<const locked_file>(folder / manifest_file_name, LOCK_EX);
  return {file->others_hold_it(), file->held() ? file : nullptr};
}

}  // namespace troupe::checkpoint
