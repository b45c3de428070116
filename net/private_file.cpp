#include "net/private_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "cluster/descriptor.hpp"
#include "core/system_error.hpp"
#include "core/text.hpp"

namespace troupe::net {
namespace {

constexpr size_t file_bytes_max = size_t{1} << 20;

core::result<void> write_all(int file, std::string_view text, const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(file, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return core::fail(core::path_error("write", path, errno));
    text.remove_prefix(static_cast<size_t>(n));
  }
  if (::fsync(file) != 0) return core::fail(core::path_error("write", path, errno));
  return {};
}

}  // namespace

core::result<void> write_whole_file(const std::filesystem::path& path, std::string_view text, readers who,
                                    existing other) {
  const std::filesystem::path part =
      path.parent_path() / fmt::format(".{}.{}.part", path.filename().string(), ::getpid());
  ::unlink(part.c_str());  // removes the file of a crashed process with the same id
  const auto file = cluster::own(
      ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, who == readers::owner ? 0600 : 0644));
  if (file->number() < 0) return core::fail(core::path_error("write", path, errno));
  auto done = write_all(file->number(), text, path);
  // link() fails if a file of that name exists; rename() replaces the existing file.
  if (done &&
      (other == existing::is_replaced ? ::rename(part.c_str(), path.c_str()) : ::link(part.c_str(), path.c_str())) != 0)
    done = core::fail(errno == EEXIST
                          ? core::error{core::error_kind::bad_input, "'" + path.string() + "' is there already"}
                          : core::path_error("write", path, errno));
  ::unlink(part.c_str());
  if (!done) return done;
  const auto folder = cluster::own(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder->number() >= 0) ::fsync(folder->number());
  return {};
}

core::result<std::string> read_whole_file(const std::filesystem::path& path, readers who) {
  const auto file = cluster::own(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (file->number() < 0 || ::fstat(file->number(), &about) != 0)
    return core::fail(core::error_kind::bad_input, core::path_error("read", path, errno).text);
  if (!S_ISREG(about.st_mode))
    return core::fail(core::error_kind::bad_input, "'" + path.string() + "' is not a regular file");
  if (who == readers::owner && (about.st_mode & 077U) != 0)
    return core::fail(
        core::error_kind::bad_input,
        core::text_of("the key '%s': wanted a file that only its owner may read (chmod 600), got mode %04o",
                      path.c_str(), unsigned{about.st_mode & 07777U}));
  std::string out;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t n = ::read(file->number(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return core::fail(core::path_error("read", path, errno));
    if (n == 0) return out;
    out.append(part.data(), static_cast<size_t>(n));
    if (out.size() > file_bytes_max)
      return core::fail(core::error_kind::bad_input, "'" + path.string() + "': wanted a file of at most 1 MiB");
  }
}

}  // namespace troupe::net
