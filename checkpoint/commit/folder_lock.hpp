// One run at a time writes to a folder of checkpoints. Owns the file `.lock` in it and the lock on it, which the kernel
// gives back when the process ends, however it ends. Readers need no lock: what they open is committed.
#pragma once

#include <filesystem>
#include <optional>
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
  /// the process that holds it and the `deed` that it is about, where another has it (this process through another
  /// object too) and where `.lock` is a link or no regular file; nothing is written then. A holder may remove the
  /// folder: who waited at its door meanwhile gets the lock of a new one.
  static core::result<folder_lock> take(const std::filesystem::path& root, std::string_view deed = "saves checkpoints");

  folder_lock(folder_lock&& other) noexcept;
  folder_lock& operator=(folder_lock&& other) noexcept;
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;
  ~folder_lock();

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }

 private:
  folder_lock(std::filesystem::path root, int fd);
  static core::result<std::optional<folder_lock>> try_take(const std::filesystem::path& root, std::string_view deed);
  void release();

  std::filesystem::path root_;
  int fd_ = -1;  ///< negative: moved from
};

struct claimed_folder {        ///< a folder of checkpoints that this process may write to
  folder_lock lock;            ///< keep it as long as the run saves
  std::vector<leftover> left;  ///< what an earlier crash had left, and what became of it; for people to be told
};

/// For the start of a run: the lock, and under it remove_leftovers(), which must never see another run's save on its
/// way.
core::result<claimed_folder> claim_folder(const std::filesystem::path& root);

}  // namespace troupe::checkpoint
