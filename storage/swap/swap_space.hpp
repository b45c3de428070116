// The scratch folder of one run, `<folder>/troupe-swap`: its lock, its room, its files' names, and that all of it is
// gone at the end. What is in the files is `swap_file.hpp`'s.
//
// The folder is ours alone (0700, files 0600) and locked with flock(2) on the file `lock` in it, which holds the number
// of the process; the kernel gives the lock back however the process ends. What a crashed run left (`*.swap`) is
// removed by the next one that opens the folder. A folder, lock or file that is a symbolic link is
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

inline constexpr size_t swap_name_bytes_max = 200;  ///< of one file's name
inline constexpr uint64_t swap_files_max = 4096;    ///< of one run

/// A kind of state that the files will hold, of all ranks: `moments`, `master weights`.
struct swap_category {
  std::string name;
  uint64_t bytes = 0;
};

struct swap_options {
  std::filesystem::path folder;       ///< made where it is missing (its parent must be there), removed again then
  std::vector<swap_category> wanted;  ///< compared with the free space before anything is created
  bool checksums = true;              ///< a digest for every page, kept in memory: 8 bytes for 4096
};

/// Any thread.
class swap_space {
 public:
  /// Makes and locks the folder, removes left-overs, and looks whether there is room. Nothing of ours stays on failure.
  /// Errors  `bad_input` where the folder is at fault: parent missing, not a folder, not writable, another user's, a
  ///         symbolic link, in use by another run or another object (names the lock file and, where known, the
  ///         process); `no_space` with the bytes free, the bytes wanted and those of each category; else `io`.
  static core::result<std::shared_ptr<swap_space>> open(const swap_options& options);

  /// Without a disk, a folder, a lock: files are memory. For simulations.
  static std::shared_ptr<swap_space> in_memory(bool checksums = true);

  swap_space(const swap_space&) = delete;
  swap_space& operator=(const swap_space&) = delete;
  /// Removes the files' names, the lock and the folder. Files still held stay usable until they are let go of.
  ~swap_space();

  /// A new file `<name>.swap` of `bytes` zeros (rounded up to the page), with room reserved on the disk; direct where
  /// the file system does that. Errors  `bad_input` for a name that is none or is taken, no bytes; `no_space`; `limit`
  /// beyond RLIMIT_FSIZE or `swap_files_max`; `io`.
  core::result<std::shared_ptr<swap_file>> create(const std::string& name, uint64_t bytes);

  [[nodiscard]] const std::filesystem::path& path() const {
    return path_;
  }  ///< `<folder>/troupe-swap`; empty in memory
  [[nodiscard]] bool checksums() const { return checksums_; }
  /// Wanted features that could not be had, leftovers of a crashed run: a sentence each, for the log.
  [[nodiscard]] std::vector<std::string> remarks() const;

 private:
  swap_space() = default;
  core::result<void> make_folder();  ///< no `folder_` afterwards: somebody took it away meanwhile, again
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
  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::string> names_;
  std::vector<std::string> remarks_;
};

}  // namespace troupe::storage
