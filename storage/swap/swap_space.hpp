// Owns the scratch folder of one run, `<folder>/troupe-swap`: its lock, the check of free space, the names of its
// files, and their removal at the end. Leaves the contents of the files to `swap_file.hpp`.
//
// Only this user can access the folder (0700, files 0600), and it is locked with flock(2) on its file `lock`, which
// holds the number of the process; the kernel releases the lock however the process ends. Files of a crashed run
// (`*.swap`) are removed by the next run that opens the folder. A folder, lock or file that is a symbolic link is
// refused; `folder` itself may be one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "storage/swap/swap_file.hpp"

namespace troupe::storage {

inline constexpr size_t swap_name_bytes_max = 200;  ///< largest size of one file's name
inline constexpr uint64_t swap_files_max = 4096;    ///< largest number of files of one run

/// One kind of state that the swap files of all ranks will contain, such as `moments`, and its total size.
struct swap_category {
  std::string name;
  uint64_t bytes = 0;
};

struct swap_options {
  /// Folder in which the scratch folder is made. If missing, it is created (its parent must exist) and removed at the
  /// end.
  std::filesystem::path folder;
  std::vector<swap_category> wanted;  ///< sizes to compare with the free space when the space is opened
  bool checksums = true;              ///< true: a digest of every page is kept in memory (8 bytes each)
};

/// The scratch folder of a run. Any thread may use it.
class swap_space {
 public:
  /// Creates and locks the scratch folder, removes files of a crashed run, and checks the free space. A failed call
  /// leaves no new files behind. Errors: `bad_input` if the folder is at fault: parent missing, not a folder, not
  /// writable, another user's, a symbolic link, in use by another run or another object (with the lock file and, if
  /// known, the process); `no_space` with the free bytes, and the required bytes in all and by category; else `io`.
  static core::result<std::shared_ptr<swap_space>> open(const swap_options& options);

  /// Returns a space without folder and lock, whose files are in memory, for simulations.
  static std::shared_ptr<swap_space> in_memory(bool checksums = true);

  swap_space(const swap_space&) = delete;
  swap_space& operator=(const swap_space&) = delete;
  /// Removes the files' names, the lock and the folder. A swap_file that is still referenced stays usable.
  ~swap_space();

  /// Creates a file `<name>.swap` of `bytes` zeros (rounded up to the page), with room reserved on the disk; direct if
  /// the file system supports it. Errors: `bad_input` for an invalid or used name or for 0 bytes; `no_space`; `limit`
  /// beyond RLIMIT_FSIZE or `swap_files_max`; `io`.
  core::result<std::shared_ptr<swap_file>> create(const std::string& name, uint64_t bytes);

  [[nodiscard]] const std::filesystem::path& path() const {
    return path_;
  }  ///< returns `<folder>/troupe-swap`; empty for a space in memory
  [[nodiscard]] bool checksums() const { return checksums_; }
  /// Returns sentences for the log: one for each feature that is not available, and one on removed files of a crashed
  /// run.
  [[nodiscard]] std::vector<std::string> remarks() const;

 private:
  swap_space() = default;
  /// Makes and opens the folders. A negative `folder_` after success means that another process removed the folder
  /// meanwhile; the caller tries again.
  core::result<void> make_folder();
  core::result<void> take_lock();
  core::result<void> remove_leftovers();
  [[nodiscard]] core::result<void> check_room(const std::vector<swap_category>& wanted) const;
  core::result<file> open_new(const std::string& file_name);
  void remark_once(const std::string& sentence);

  std::filesystem::path parent_, path_;
  bool made_parent_ = false, made_ = false;
  bool checksums_ = true;
  int folder_ = -1;  // descriptor of the scratch folder; negative: none
  int lock_ = -1;
  mutable std::mutex mutex_;  // protects the members below
  std::vector<std::string> names_;
  std::vector<std::string> remarks_;
};

}  // namespace troupe::storage
