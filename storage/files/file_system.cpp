// Implements the real file system: the content of files through storage/, names by system calls.
#include "storage/files/file_system.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "core/lfs_pointer.hpp"
#include "core/system_error.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/queued_output.hpp"

namespace troupe::storage {
namespace {

namespace fs = std::filesystem;

class real_input : public input_file {
 public:
  real_input(file on, uint64_t bytes) : on_(std::move(on)), bytes_(bytes) {}

  [[nodiscard]] uint64_t bytes() const override { return bytes_; }

  [[nodiscard]] core::result<size_t> read_at(uint64_t offset_bytes, std::span<std::byte> out) const override {
    return on_.read_at(offset_bytes, out);
  }

  [[nodiscard]] std::optional<file> direct() const override {
    auto out = on_.reopened(file_access::read, file_mode::direct);
    if (!out) return std::nullopt;  // without a direct handle the caller reads by read_at(), through the page cache
    return std::move(*out);
  }

 private:
  file on_;
  uint64_t bytes_;
};

class real_file_system : public file_system {
 public:
  core::result<std::unique_ptr<output_file>> create(const fs::path& path) override {
    return create_queued_output(path);
  }

  core::result<std::unique_ptr<input_file>> open(const fs::path& path) override {
    TROUPE_ASSIGN(auto file, file::open(path, file_access::read_regular, file_mode::buffered));
    TROUPE_ASSIGN(const auto bytes, file.size_bytes());
    return std::make_unique<real_input>(std::move(file), bytes);
  }

  core::result<void> rename(const fs::path& from, const fs::path& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0) return fail(core::path_error("rename to", to, errno));
    return {};
  }

  core::result<void> remove(const fs::path& path) override {
    if (std::remove(path.c_str()) != 0) return fail(core::path_error("remove", path, errno));
    return {};
  }

  core::result<void> make_folder(const fs::path& path) override {
    if (::mkdir(path.c_str(), 0777) != 0) return fail(core::path_error("make the folder", path, errno));
    return {};
  }

  core::result<void> sync_folder(const fs::path& path) override { return storage::sync_folder(path); }

  core::result<std::vector<folder_entry>> list(const fs::path& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
    if (folder == nullptr) return fail(core::path_error("list", path, errno));
    std::vector<folder_entry> out;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(folder.get());
      if (entry == nullptr && errno != 0) return fail(core::path_error("list", path, errno));
      if (entry == nullptr) break;
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (out.size() == max_folder_entries)
        return fail(error_kind::limit, fmt::format("'{}' holds more than {} names", path.string(), max_folder_entries));
      struct stat status {};
      // the entry was removed since the folder was read
      if (::fstatat(::dirfd(folder.get()), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
      out.push_back({name, S_ISREG(status.st_mode)   ? entry_kind::file
                           : S_ISDIR(status.st_mode) ? entry_kind::folder
                                                     : entry_kind::other});
    }
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return out;
  }

  core::result<bool> exists(const fs::path& path) override {
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0) return true;
    if (errno == ENOENT) return false;
    return fail(core::path_error("look for", path, errno));
  }

  core::result<uint64_t> free_bytes(const fs::path& path) override {
    struct statvfs status {};
    if (::statvfs(path.c_str(), &status) != 0) return fail(core::path_error("ask for the free space of", path, errno));
    return static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
  }
};

}  // namespace

core::result<void> output_file::expect(uint64_t) { return {}; }

core::result<uint64_t> output_file::start_write(std::span<const std::byte> bytes) {
  TROUPE_TRY(write(bytes));
  return ++writes_;
}

core::result<void> output_file::wait(uint64_t) { return {}; }

bool output_file::is_over(uint64_t) { return true; }

file_system& real_files() {
  static real_file_system files;
  return files;
}

bool is_there(const fs::path& path) {
  std::error_code ec;
  return fs::exists(path, ec);
}

bool is_folder(const fs::path& path) {
  std::error_code ec;
  return fs::is_directory(path, ec);
}

std::vector<std::string> names_in(const fs::path& folder, const std::function<bool(std::string_view)>& is_wanted) {
  std::vector<std::string> out;
  std::error_code ec;
  size_t seen = 0;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end && seen < max_folder_entries;
       at.increment(ec), ++seen)
    if (auto name = at->path().filename().string(); is_wanted(name)) out.push_back(std::move(name));
  std::ranges::sort(out);
  return out;
}

core::result<std::string> read_small_file(file_system& files, const fs::path& path, uint64_t max_bytes) {
  TROUPE_ASSIGN(const auto file, files.open(path));
  if (file->bytes() > max_bytes)
    return fail(error_kind::limit,
                fmt::format("'{}' has {} bytes, at most {} are read", path.string(), file->bytes(), max_bytes));
  std::string out(static_cast<size_t>(file->bytes()), '\0');
  TROUPE_TRY(read_exactly(*file, path, 0, std::as_writable_bytes(std::span(out))));
  if (core::begins_like_lfs_pointer(out)) return fail(core::lfs_pointer_error(path.string(), out));
  return out;
}

core::result<void> read_exactly(const input_file& file, const fs::path& path, uint64_t offset_bytes,
                                std::span<std::byte> out) {
  size_t done = 0;
  for (int attempt = 0; attempt < 2 && done < out.size(); ++attempt) {
    TROUPE_ASSIGN(const auto n, file.read_at(offset_bytes + done, out.subspan(done)));
    done += n;
  }
  if (done < out.size())
    return fail(error_kind::io, fmt::format("'{}': only {} of {} bytes could be read at byte {}", path.string(), done,
                                            out.size(), offset_bytes));
  return {};
}

}  // namespace troupe::storage
