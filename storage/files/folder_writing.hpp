// Writes a folder of another library's format so that it appears as a whole or not at all: under a working name next to
// its target, which is then renamed; a file such as DeepSpeed's `latest` then names it. The caller decides which files
// the folder contains.
#pragma once

#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "storage/files/file_system.hpp"
#include "storage/files/progress.hpp"

namespace troupe::storage {

/// Maximum length in bytes of the name of a folder that folder_writing writes.
inline constexpr size_t max_written_folder_name_bytes = 200;

/// A folder that is being written. If commit() is not called, the destructor removes the folder.
class folder_writing {
 public:
  /// Creates the working folder; creates `root` if it is missing and removes the remains of an interrupted writing of
  /// `name`. Returns an error if `name` is not a plain name, if `root`/`name` exists, or if fewer than `needed_bytes`
  /// are free.
  static core::result<folder_writing> begin(file_system& files, const std::filesystem::path& root,
                                            const std::string& name, uint64_t needed_bytes);

  folder_writing(folder_writing&& other) noexcept;
  folder_writing& operator=(folder_writing&&) = delete;
  folder_writing(const folder_writing&) = delete;
  folder_writing& operator=(const folder_writing&) = delete;
  ~folder_writing();

  /// Returns the folder that the files are written to until commit().
  [[nodiscard]] const std::filesystem::path& working() const { return working_; }
  /// Creates a folder within the working folder.
  core::result<void> make_folder(const std::filesystem::path& below) const;

  /// Adds `bytes` to the written bytes and reports the sum to `progress`; returns an error if `progress` asks to stop.
  core::result<void> wrote(uint64_t bytes, const progress_function& progress);

  /// Syncs the folders, renames the working folder to its final name, then writes this name into the file
  /// `root`/`pointer`. The caller must have synced every file.
  core::result<void> commit(const std::string& pointer);

 private:
  folder_writing(file_system& files, std::filesystem::path root, std::string name, uint64_t needed_bytes);

  file_system* files_;
  std::filesystem::path root_, working_;  ///< working_ is empty after its folder is renamed or the object is moved from
  std::string name_;
  uint64_t done_ = 0, needed_bytes_;
};

}  // namespace troupe::storage
