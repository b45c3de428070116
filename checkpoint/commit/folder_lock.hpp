// A lock that lets one run at a time write to a folder. Owns the file `.lock` in the folder; the kernel releases the
// lock when the process ends, for whatever reason. Readers need no lock: they open committed checkpoints.
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

/// Held from take() to the destructor, or to the end of the process. The file stays; it holds the number of the process
/// that has the lock.
class folder_lock {
 public:
  /// Makes `root`, which may be missing, and takes the lock without waiting. error_kind::bad_input, with the number of
  /// the holding process and its `purpose`, where the lock is held (also by another object of this process) and where
  /// `.lock` is a link or no regular file; nothing is written then. The holder may remove the folder: a caller that
  /// comes meanwhile locks a new one. A file system without locks keeps nobody out: `objection` says so.
  static core::result<folder_lock> take(const std::filesystem::path& root,
                                        std::string_view purpose = "saves checkpoints");

  /// Whether somebody has it at this moment.
  static bool is_held(const std::filesystem::path& root);

  folder_lock(folder_lock&& other) noexcept;
  folder_lock& operator=(folder_lock&& other) noexcept;
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;
  ~folder_lock();

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  /// Whether the lock's file is still the one of that name: whoever removes it, or the folder, lets others in.
  [[nodiscard]] bool is_in_place() const;
  /// Why the lock keeps nobody out, as a sentence; empty: it does.
  [[nodiscard]] const std::string& objection() const { return objection_; }

 private:
  folder_lock(std::filesystem::path root, int fd);
  static core::result<std::optional<folder_lock>> try_take(const std::filesystem::path& root, std::string_view purpose);
  void release();

  std::filesystem::path root_;
  int fd_ = -1;  ///< negative: moved from
  std::string objection_;
};

struct claimed_folder {        ///< a folder of checkpoints that this process may write to
  folder_lock lock;            ///< keep it as long as the run saves
  std::vector<leftover> left;  ///< what an earlier crash left behind, to be reported
};

/// For the start of a run: takes the lock, then calls remove_leftovers(), which must not run during another run's save.
core::result<claimed_folder> claim_folder(const std::filesystem::path& root);

}  // namespace troupe::checkpoint
