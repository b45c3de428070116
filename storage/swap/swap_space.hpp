// The scratch folder of one run, `<folder>/troupe-swap`: its lock, its room, its files' names, and the removal of all
// of it at the end. Leaves the contents of the files to `swap_file.hpp`.
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

inline constexpr size_t swap_name_bytes_max = 200;  ///< bytes of one file's name
inline constexpr uint64_t swap_files_max = 4096;    ///< files of one run

/// A kind of state that the files of all ranks will hold: `moments`, `master weights`.
struct swap_category {
  std::string name;
  uint64_t bytes = 0;
};

struct swap_options {
  /// Created if missing (its parent must exist), and removed at the end in that case.
  std::filesystem::path folder;
  std::vector<swap_category> wanted;  ///< compared with the free space before anything is created
  bool checksums = true;              ///< a digest for every page, kept in memory: 8 bytes for 4096
};

/// The scratch folder of a run. Any thread may use it.
class swap_space {
 public:
  /// Creates and locks the folder, removes left-overs, and checks the free space. A failed call leaves nothing behind.
  /// Errors: `bad_input` if the folder is at fault: parent missing, not a folder, not writable, another user's, a
  /// symbolic link, in use by another run or another object (with the lock file and, if known, the process); `no_space`
  /// with the free bytes, the required bytes and those of each category; else `io`.
  static core::result<std::shared_ptr<swap_space>> open(const swap_options& options);

  /// Returns a space without a disk, a folder and a lock, whose files are in memory, for simulations.
  static std::shared_ptr<swap_space> in_memory(bool checksums = true);

  swap_space(const swap_space&) = delete;
  swap_space& operator=(const swap_space&) = delete;
  /// Removes the files' names, the lock and the folder. Files in use stay usable until they are released.
  ~swap_space();

  /// Creates a file `<name>.swap` of `bytes` zeros (rounded up to the page), with room reserved on the disk; direct if
  /// the file system supports it. Errors: `bad_input` for an invalid or used name or for 0 bytes; `no_space`; `limit`
  /// beyond RLIMIT_FSIZE or `swap_files_max`; `io`.
  core::result<std::shared_ptr<swap_file>> create(const std::string& name, uint64_t bytes);

  [[nodiscard]] const std::filesystem::path& path() const {
    return path_;
  }  ///< `<folder>/troupe-swap`; empty in memory
  [[nodiscard]] bool checksums() const { return checksums_; }
  /// One sentence for each requested feature that is not available and for left-overs of a crashed run, for the log.
  [[nodiscard]] std::vector<std::string> remarks() const;

 private:
  swap_space() = default;
  /// On success, a negative `folder_` means that another process removed the folder meanwhile: try again.
  core::result<void> make_folder();
  core::result<void> take_lock();
  core::result<void> remove_leftovers();
  [[nodiscard]] core::result<void> check_room(const std::vector<swap_category>& wanted) const;
  core::result<file> open_new(const std::string& file_name);
  void remark_once(const std::string& sentence);

  std::filesystem::path parent_, path_;
  bool made_parent_ = false, made_ = false;
  bool checksums_ = true;
  int folder_ = -1;  // descriptors; negative: none
  int lock_ = -1;
  mutable std::mutex mutex_;  // protects the members below
  std::vector<std::string> names_;
  std::vector<std::string> remarks_;
};

}  // namespace troupe::storage
