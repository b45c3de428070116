// A file that appears as a whole or not at all: it is written under a working name, synced, then renamed. Owns the
// working name next to the target; leaves the format of the content to the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/error.hpp"

namespace troupe::storage {

/// When a committed file survives a power cut. `at_once`: when commit() returns, which costs two flushes of the disk,
/// tens of milliseconds on some disks. `in_time`: when the operating system has written it. A killed process leaves
/// either the old or the new file in both cases.
enum class durability : uint8_t { at_once, in_time };

/// A file that is being written. If commit() is not called, the destructor removes the written bytes and the old file
/// stays.
class atomic_file {
 public:
  /// Opens a new file `.NAME.PROCESS-COUNT.part` in the folder of `target`. The folder must exist.
  static core::result<atomic_file> create(const std::filesystem::path& target);

  atomic_file(atomic_file&& other) noexcept;
  atomic_file& operator=(atomic_file&&) = delete;
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file();

  /// Appends bytes. After an error the object may only be destroyed.
  core::result<void> write(std::span<const std::byte> bytes);
  core::result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

  /// Forces the bytes to the disk and closes the file, which keeps its working name.
  core::result<void> sync();

  /// Calls sync() if the file is not synced yet, renames the file to the target and syncs the folder. When it returns,
  /// the new content survives a power cut. With durability::in_time it only closes and renames.
  core::result<void> commit(durability when = durability::at_once);

  [[nodiscard]] const std::filesystem::path& target() const { return target_; }
  /// Returns the path of the working file until commit(), for code that writes to it through its own descriptor.
  [[nodiscard]] const std::filesystem::path& working_path() const { return part_; }

 private:
  atomic_file(std::filesystem::path target, std::filesystem::path part, int fd);
  [[nodiscard]] tl::unexpected<core::error> failed(int system_error) const;

  std::filesystem::path target_;
  std::filesystem::path part_;  ///< path of the working file; empty after its rename or a move of the object
  int fd_ = -1;
};

/// Makes names that were created, renamed or removed in `folder` survive a power cut. On a file system that cannot sync
/// folders (CIFS) it does nothing and returns no error; syncs_folders() is false there.
core::result<void> sync_folder(const std::filesystem::path& folder);
bool syncs_folders(const std::filesystem::path& folder);

/// Writes `text` as the whole content of a small file with atomic_file.
core::result<void> write_file_atomically(const std::filesystem::path& target, std::string_view text);

}  // namespace troupe::storage
