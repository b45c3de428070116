#include "telemetry/curves/curve_claim.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "core/system/lock_holder.hpp"
#include "core/system_error.hpp"
#include "telemetry/curves/tracked_run.hpp"

namespace troupe::telemetry {
namespace {

namespace fs = std::filesystem;

/// Maximum bytes of the file `.curves` that are read: more than a path has.
constexpr size_t claim_bytes_max = 16384;

/// Returns the run in the open file `.curves`, which follows the line of the process; empty if there is none.
std::string recorded_run(int fd) {
  std::string text(claim_bytes_max, '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  const size_t line = text.find('\n');
  if (line == std::string::npos || line + 1 == text.size() || !text.ends_with('\n')) return {};
  return text.substr(line + 1, text.size() - line - 2);
}

/// Writes the process and the run into the open file `.curves`. Failures are ignored: a file without text means that
/// the curves may be of any run.
void record(int fd, const std::string& run) {
  core::write_lock_holder(fd);
  const std::string text = run + "\n";
  (void)!::pwrite(fd, text.data(), text.size(), ::lseek(fd, 0, SEEK_END));
}

}  // namespace

core::result<curve_claim> curve_claim::take(const fs::path& folder, const curve_claimant& who) {
  const fs::path file = folder / claim_file_name;
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (fd < 0) return core::fail(core::path_error("open", file, errno));
  curve_claim out(fd);
  struct stat about {};
  if (::fstat(fd, &about) != 0) return core::fail(core::path_error("look at", file, errno));
  if (!S_ISREG(about.st_mode)) return core::refused("'" + file.string() + "' is not a regular file: remove it");
  int locked = 0;
  do locked = ::flock(fd, LOCK_EX | LOCK_NB);
  while (locked != 0 && errno == EINTR);
  const bool is_held = locked != 0 && errno == EWOULDBLOCK;
  if (locked != 0 && !is_held && !core::is_without_locks(errno))
    return core::fail(core::path_error("lock", file, errno));
  const std::string run = run_seen_from(who.run, folder), before = recorded_run(fd);
  // A lost process of the same run, on another machine perhaps, may still hold the folder.
  if (is_held && (who.took_over || (!run.empty() && before == run))) return out;
  if (is_held)
    return core::refused("'" + folder.string() + "' is in use: " + core::lock_holder(fd) +
                         " writes curves there, and rows of two runs would be mixed; wait until it ends, or set "
                         "another job_name or output_path");
  if (who.goes_on && !who.took_over && !before.empty() && before != run)
    return core::refused("'" + folder.string() + "' has the curves of the run in '" +
                         (folder / before).lexically_normal().string() +
                         "', which this run would cut and append to, because it resumes; set another job_name or "
                         "output_path, or remove '" +
                         file.string() + "' if the curves are this run's");
  record(fd, run);
  return out;
}

curve_claim::curve_claim(curve_claim&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

curve_claim::~curve_claim() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace troupe::telemetry
