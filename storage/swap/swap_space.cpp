#include "storage/swap/swap_space.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/math.hpp"
#include "core/system/lock_holder.hpp"
#include "core/system_error.hpp"
#include "core/text.hpp"

namespace troupe::storage {

namespace {

namespace fs = std::filesystem;

constexpr const char* folder_name = "troupe-swap";
constexpr const char* lock_name = "lock";
constexpr const char* ending = ".swap";
// Number of attempts to make the folder: a run that ends may remove the folder while the next run makes it.
constexpr unsigned attempts_max = 16;

tl::unexpected<core::error> refused(const std::string& action, const fs::path& path, int why) {
  return fail(core::path_error(action, path, why).in("swap folder"));
}

tl::unexpected<core::error> is_link(const fs::path& path) {
  return fail(error_kind::bad_input, "swap folder: " + core::in_quotes(path.string()) +
                                         " is a symbolic link, which is not followed here; remove it");
}

uint64_t add_up(uint64_t a, uint64_t b) { return a + b < a ? ~uint64_t{0} : a + b; }

bool valid_name(const std::string& name) {
  return !name.empty() && name.size() <= swap_name_bytes_max && name.front() != '.' &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

}  // namespace

core::result<std::shared_ptr<swap_space>> swap_space::open(const swap_options& options) {
  std::error_code ec;
  const fs::path folder = fs::absolute(options.folder, ec).lexically_normal();
  if (options.folder.empty() || ec) return fail(error_kind::bad_input, "swap folder: wanted a path, got none");
  std::shared_ptr<swap_space> out(new swap_space);
  out->parent_ = folder.has_filename() ? folder : folder.parent_path();
  out->path_ = out->parent_ / folder_name;
  out->checksums_ = options.checksums;
  TROUPE_TRY(out->take_lock());
  TROUPE_TRY(out->remove_leftovers());
  TROUPE_TRY(out->check_room(options.wanted));
  return out;
}

std::shared_ptr<swap_space> swap_space::in_memory(bool checksums) {
  std::shared_ptr<swap_space> out(new swap_space);
  out->checksums_ = checksums;
  return out;
}

swap_space::~swap_space() {
  if (lock_ >= 0) {
    for (const auto& name : names_) ::unlinkat(folder_, name.c_str(), 0);
    ::unlinkat(folder_, lock_name, 0);  // while it is locked, so that a process that has opened it detects the removal
    ::close(lock_);
  }
  if (folder_ >= 0) ::close(folder_);
  // rmdir removes empty folders only, so files of another run stay.
  if (lock_ >= 0 || made_) ::rmdir(path_.c_str());
  if (made_parent_) ::rmdir(parent_.c_str());
}

core::result<void> swap_space::make_folder() {
  if (folder_ >= 0) ::close(std::exchange(folder_, -1));
  struct stat about {};
  if (::stat(parent_.c_str(), &about) != 0) {
    if (errno != ENOENT) return refused("look at", parent_, errno);
    if (::mkdir(parent_.c_str(), 0700) == 0)
      made_parent_ = true;
    else if (errno != EEXIST)
      return refused("make", parent_, errno);
  } else if (!S_ISDIR(about.st_mode)) {
    return fail(error_kind::bad_input, "swap folder: " + core::in_quotes(parent_.string()) + " is not a folder");
  }
  if (::mkdir(path_.c_str(), 0700) == 0)
    made_ = true;
  else if (errno == ENOENT)
    return {};
  else if (errno != EEXIST)
    return refused("make", path_, errno);
  folder_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder_ < 0) {
    const int why = errno;
    if (why == ENOENT) return {};
    if (::lstat(path_.c_str(), &about) == 0 && S_ISLNK(about.st_mode)) return is_link(path_);
    return refused("open", path_, why);
  }
  if (::fstat(folder_, &about) != 0) return refused("look at", path_, errno);
  if (about.st_uid != ::geteuid())
    return fail(error_kind::bad_input, fmt::format("swap folder: {} belongs to user {}, wanted a folder of user {}",
                                                   core::in_quotes(path_.string()), about.st_uid, ::geteuid()));
  if ((about.st_mode & 07777) != 0700 && ::fchmod(folder_, 0700) != 0) return refused("make private", path_, errno);
  return {};
}

core::result<void> swap_space::take_lock() {
  const fs::path path = path_ / lock_name;
  for (unsigned attempt = 0; attempt < attempts_max; ++attempt) {
    TROUPE_TRY(make_folder());
    if (folder_ < 0) continue;
    const int lock = ::openat(folder_, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (lock < 0 && errno == ENOENT) continue;
    if (lock < 0 && errno == ELOOP) return is_link(path);
    if (lock < 0) return refused("open the lock", path, errno);
    const auto give_up = [lock](auto why) {
      ::close(lock);
      return why;
    };
    struct stat mine {
    }, named{};
    if (::fstat(lock, &mine) != 0) return give_up(refused("look at", path, errno));
    if (!S_ISREG(mine.st_mode))
      return give_up(
          fail(error_kind::bad_input, "swap folder: " + core::in_quotes(path.string()) + " is not a regular file"));
    int locked = 0;
    do locked = ::flock(lock, LOCK_EX | LOCK_NB);
    while (locked != 0 && errno == EINTR);
    if (locked != 0 && errno == EWOULDBLOCK)
      return give_up(fail(error_kind::bad_input, "swap folder: " + core::in_quotes(parent_.string()) +
                                                     " is in use: " + core::lock_holder(lock) + " holds the lock on " +
                                                     core::in_quotes(path.string())));
    if (locked != 0 && core::is_without_locks(errno))
      remark_once("swap folder " + core::in_quotes(path_.string()) + ": the file system does not support locks (" +
                  core::system_message(errno) + "); make sure that no second run uses it");
    else if (locked != 0)
      return give_up(refused("lock", path, errno));
    // If the lock file was removed meanwhile, the lock protects nothing: try again.
    if (::lstat(path.c_str(), &named) != 0 || named.st_ino != mine.st_ino || named.st_dev != mine.st_dev) {
      ::close(lock);
      continue;
    }
    lock_ = lock;
    core::write_lock_holder(lock);
    return {};
  }
  return refused("make and lock", path, ENOENT);
}

core::result<void> swap_space::remove_leftovers() {
  std::error_code ec;
  uint64_t files = 0, bytes = 0, foreign = 0;
  for (fs::directory_iterator entry(path_, ec), end; !ec && entry != end; entry.increment(ec)) {
    const std::string name = entry->path().filename();
    if (name == lock_name) continue;
    if (entry->path().extension() != ending) {
      ++foreign;
      continue;
    }
    struct stat about {};
    if (::fstatat(folder_, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISLNK(about.st_mode)) return is_link(entry->path());
    if (!S_ISREG(about.st_mode))
      return fail(error_kind::bad_input,
                  "swap folder: " + core::in_quotes(entry->path().string()) + " is not a regular file");
    if (::unlinkat(folder_, name.c_str(), 0) != 0) return refused("remove", entry->path(), errno);
    ++files;
    bytes = add_up(bytes, static_cast<uint64_t>(about.st_size));
  }
  if (ec) return refused("list", path_, ec.value());
  if (files > 0)
    remark_once(fmt::format("swap folder {}: removed {} files, {} bytes, that an interrupted run had left",
                            core::in_quotes(path_.string()), files, bytes));
  if (foreign > 0)
    remark_once(
        fmt::format("swap folder {}: left {} entries that are not Troupe's", core::in_quotes(path_.string()), foreign));
  return {};
}

core::result<void> swap_space::check_room(const std::vector<swap_category>& wanted) const {
  uint64_t bytes = 0;
  std::string each;
  for (const auto& category : wanted) {
    bytes = add_up(bytes, category.bytes);
    if (!each.empty()) each += ", ";
    each.append(category.name).append(" ").append(fmt::to_string(category.bytes));
  }
  struct statvfs about {};
  int answer = 0;
  do answer = ::fstatvfs(folder_, &about);
  while (answer != 0 && errno == EINTR);
  if (answer != 0) return refused("ask for the free space of", path_, errno);
  const uint64_t available = uint64_t{about.f_bavail} * about.f_frsize;
  if (bytes <= available) return {};
  return fail(error_kind::no_space, fmt::format("swap folder {}: wanted {} bytes ({}), got {} bytes free",
                                                core::in_quotes(parent_.string()), bytes, each, available));
}

core::result<file> swap_space::open_new(const std::string& file_name) {
  const fs::path path = path_ / file_name;
  auto out = file::open(path, file_access::create_new, file_mode::direct, 0600);
  if (out && out->alignment().offset_bytes <= swap_page_bytes && out->alignment().memory_bytes <= swap_page_bytes)
    return out;
  if (!out && out.error().kind != error_kind::mismatch) return out;
  std::string why = "no direct I/O";
  if (out) {
    why = fmt::format("direct I/O only at multiples of {} bytes", out->alignment().offset_bytes);
    ::unlinkat(folder_, file_name.c_str(), 0);
  }
  remark_once("swap folder " + core::in_quotes(path_.string()) + ": the file system supports " + why +
              "; using the page cache");
  return file::open(path, file_access::create_new, file_mode::buffered, 0600);
}

core::result<std::shared_ptr<swap_file>> swap_space::create(const std::string& name, uint64_t bytes) {
  const auto refuse = [&](error_kind kind, const std::string& why) {
    return fail(kind, fmt::format("swap file '{}' of {} bytes: {}", name, bytes, why));
  };
  if (!valid_name(name))
    return refuse(error_kind::bad_input,
                  fmt::format("wanted a name of 1 to {} bytes that does not begin with a dot and has no slash",
                              swap_name_bytes_max));
  if (bytes == 0 || bytes > uint64_t{1} << 62)
    return refuse(error_kind::bad_input, "wanted a size that a file can have");
  const uint64_t whole = core::round_up(bytes, swap_page_bytes);
  const std::string file_name = name + ending;
  const std::lock_guard lock(mutex_);
  if (std::find(names_.begin(), names_.end(), file_name) != names_.end())
    return refuse(error_kind::bad_input, "the name is taken");
  if (names_.size() >= swap_files_max)
    return refuse(error_kind::limit, fmt::format("wanted at most {} files", swap_files_max));
  if (path_.empty()) {
    auto made = swap_file::in_memory(file_name, whole, checksums_);
    if (made) names_.push_back(file_name);
    return made;
  }
  // A write beyond RLIMIT_FSIZE would raise a signal that ends the process.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && whole > limit.rlim_cur)
    return refuse(error_kind::limit, fmt::format("RLIMIT_FSIZE is {}, raise it with `ulimit -f`", limit.rlim_cur));
  TROUPE_ASSIGN(auto on, open_new(file_name));
  const auto reserved = on.preallocate(whole);
  if (!reserved) {
    ::unlinkat(folder_, file_name.c_str(), 0);
    struct statvfs about {};
    std::string text = reserved.error().text;
    if (::fstatvfs(folder_, &about) == 0)
      text += fmt::format("; {} bytes are free", uint64_t{about.f_bavail} * about.f_frsize);
    return fail(reserved.error().kind, text);
  }
  if (!*reserved)
    remark_once("swap folder " + core::in_quotes(path_.string()) +
                ": the file system cannot reserve space; a later write may fail because it is full");
  names_.push_back(file_name);
  return std::make_shared<swap_file>(std::move(on), whole, checksums_);
}

std::vector<std::string> swap_space::remarks() const {
  const std::lock_guard lock(mutex_);
  return remarks_;
}

void swap_space::remark_once(const std::string& sentence) {
  if (std::find(remarks_.begin(), remarks_.end(), sentence) == remarks_.end()) remarks_.push_back(sentence);
}

}  // namespace troupe::storage
