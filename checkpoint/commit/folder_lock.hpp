// A lock that lets one run at a time write to a folder. Owns the file `.lock` in the folder; the kernel releases the
// lock when the process ends, for any reason. Readers need no lock: they open committed checkpoints.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/commit/commit.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

inline constexpr std::string_view lock_file_name = ".lock";

/// The lock of a folder, held from take() to the destructor or to the end of the process. The file `.lock` stays; while
/// the lock is held, the file contains the process id of the holder.
class folder_lock {
 public:
  /// Creates `root` if it is missing and takes the lock without waiting. Returns error_kind::bad_input if `.lock` is a
  /// link or not a regular file, and if the lock is held (also by another object of this process); the message then has
  /// the process id of the holder, followed by `purpose`, the activity that the message ascribes to it. If the holder
  /// removes the folder during the call, the function creates and locks a new folder. On a file system without locks
  /// the function succeeds without protection, and objection() explains why.
  static core::result<folder_lock> take(const std::filesystem::path& root,
                                        std::string_view purpose = "saves checkpoints");

  /// True if some process holds the lock of `root` at this moment.
  static bool is_held(const std::filesystem::path& root);

  folder_lock(folder_lock&& other) noexcept;
  folder_lock& operator=(folder_lock&& other) noexcept;
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;
  ~folder_lock();

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  /// True if the locked file still has the name `.lock` in the folder. If it or the folder was removed, another process
  /// can take a new lock.
  [[nodiscard]] bool is_in_place() const;
  /// Returns a sentence that explains why the lock does not protect the folder; empty if it does.
  [[nodiscard]] const std::string& objection() const { return objection_; }

 private:
  folder_lock(std::filesystem::path root, int fd);
  static core::result<std::optional<folder_lock>> try_take(const std::filesystem::path& root, std::string_view purpose);
  void release();

  std::filesystem::path root_;
  int fd_ = -1;  ///< descriptor of the open file `.lock`; negative after a move
  std::string objection_;
};

struct claimed_folder {        ///< a folder of checkpoints that this process may write to
  folder_lock lock;            ///< lock of the folder; must be kept as long as the run saves
  std::vector<leftover> left;  ///< remains of an earlier crash, for the caller to report
};

/// Takes the lock of the folder at the start of a run, then calls remove_leftovers(), which must not run during another
/// run's save.
core::result<claimed_folder> claim_folder(const std::filesystem::path& root);

}  // namespace troupe::checkpoint
