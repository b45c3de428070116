#include "telemetry/curves/append_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/system/log_file.hpp"
#include "core/system_error.hpp"

namespace troupe::telemetry {
namespace {

core::error failure(const std::filesystem::path& file, const char* what, int system_error) {
  return {core::kind_of_write_error(system_error),
          std::string("cannot ") + what + " " + file.string() + ": " + core::system_message(system_error)};
}

/// Returns the first of NAME.previous, NAME.previous.2, NAME.previous.3 ... that does not exist.
std::filesystem::path free_name_beside(const std::filesystem::path& file) {
  const std::string first = file.string() + ".previous";
  std::filesystem::path out = first;
  std::error_code e;
  for (uint64_t number = 2; std::filesystem::exists(std::filesystem::symlink_status(out, e)); ++number)
    out = fmt::format("{}.{}", first, number);
  return out;
}

}  // namespace

core::result<append_file> append_file::create(const std::filesystem::path& file) {
  std::error_code e;
  if (std::filesystem::is_regular_file(file, e)) {
    std::filesystem::rename(file, free_name_beside(file), e);
    if (e) return core::fail(failure(file, "set aside the earlier", e.value()));
  }
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return core::fail(failure(file, "create", errno));
  return append_file(file, fd);
}

core::result<append_file> append_file::go_on(const std::filesystem::path& file) {
  TROUPE_ASSIGN(const auto fd, core::open_log(file));
  append_file out(file, fd);
  const off_t end = ::lseek(fd, 0, SEEK_END);
  if (end < 0) return core::fail(failure(file, "continue", errno));
  out.written_ = static_cast<uint64_t>(end);
  return out;
}

append_file::append_file(append_file&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      written_(other.written_),
      waiting_(std::move(other.waiting_)),
      num_dropped_(other.num_dropped_),
      is_removed_(other.is_removed_) {}

append_file::~append_file() {
  if (fd_ >= 0) ::close(fd_);
}

void append_file::add(std::string_view record) {
  if (waiting_.size() + record.size() > waiting_bytes_limit)
    ++num_dropped_;
  else
    waiting_ += record;
}

core::result<void> append_file::flush() {
  size_t done = 0;
  while (done < waiting_.size()) {
    const ssize_t n = ::write(fd_, waiting_.data() + done, waiting_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int why = n < 0 ? errno : ENOSPC;
      // Truncates the file to its length after the last complete flush, so that readers see no half record. If the
      // truncation fails, the bytes written just now remain, and the next flush writes the remaining bytes after them.
      if (done > 0 && ::ftruncate(fd_, static_cast<off_t>(written_)) != 0) {
        written_ += done;
        waiting_.erase(0, done);
      }
      return core::fail(failure(path_, "write", why));
    }
    done += static_cast<size_t>(n);
  }
  written_ += done;
  waiting_.clear();
  struct stat now {};
  if (done == 0 || ::fstat(fd_, &now) != 0 || now.st_nlink > 0) return {};
  is_removed_ = true;
  ++num_dropped_;
  return core::fail(core::error_kind::io, "cannot write " + path_.string() + ": the file was removed during the run");
}

}  // namespace troupe::telemetry
