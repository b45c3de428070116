// A folder of another library's format that appears whole or not at all: it is written under a working name beside its
// target, renamed, then named by a file such as DeepSpeed's `latest`. The caller decides what it holds.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/files/progress.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Bytes of such a folder's name.
inline constexpr size_t max_written_folder_name_bytes = 200;

/// Without commit() the destructor removes what was written.
class folder_writing {
 public:
  /// `root` is made where it is missing. What an interrupted writing of `name` left goes. Refused: a name that is no
  /// plain one or that is taken, less free space than `needed_bytes`.
  static core::result<folder_writing> begin(file_system& files, const std::filesystem::path& root,
                                            const std::string& name, uint64_t needed_bytes);

  folder_writing(folder_writing&& other) noexcept;
  folder_writing& operator=(folder_writing&&) = delete;
  folder_writing(const folder_writing&) = delete;
  folder_writing& operator=(const folder_writing&) = delete;
  ~folder_writing();

  /// Where files go until commit().
  [[nodiscard]] const std::filesystem::path& working() const { return working_; }
  /// Makes a folder in it.
  core::result<void> make_folder(const std::filesystem::path& below) const;

  /// Counts bytes that were written, for `progress`; an error once it wants to stop.
  core::result<void> wrote(uint64_t bytes, const progress_function& progress);

  /// Every file is synced already. Renames, syncs, then writes the name into root / `pointer`.
  core::result<void> commit(const std::string& pointer);

 private:
  folder_writing(file_system& files, std::filesystem::path root, std::string name, uint64_t needed_bytes);

  file_system* files_;
  std::filesystem::path root_, working_;  ///< working_ is empty once renamed or moved from
  std::string name_;
  uint64_t done_ = 0, needed_bytes_;
};

}  // namespace troupe::checkpoint
