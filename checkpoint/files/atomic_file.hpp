// A file that appears whole or not at all: written aside, synced, renamed. Owns the name beside the
// target until then; knows nothing of formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Whether a file that has its name survives a power cut at once (two flushes of the disk, tens of milliseconds on
/// some), or when the system gets to it. A process that is killed leaves the old file or the new one either way.
enum class durability : uint8_t { at_once, in_time };

/// One file on its way. Without commit() the destructor removes what was written and the old file stays.
class atomic_file {
 public:
  /// Opens a new file `.NAME.PROCESS-COUNT.part` beside `target`. The folder must exist.
  static core::result<atomic_file> create(const std::filesystem::path& target);

  atomic_file(atomic_file&& other) noexcept;
  atomic_file& operator=(atomic_file&&) = delete;
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file();

  /// Appends; after an error only destruction makes sense.
  core::result<void> write(std::span<const std::byte> bytes);
  core::result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

  /// Forces the bytes to the disk and closes; the file still has its working name.
  core::result<void> sync();

  /// sync() if that was not done, then takes the target's name and syncs the folder: from here on the
  /// new content survives a power cut.
  core::result<void> commit(durability when = durability::at_once);

  [[nodiscard]] const std::filesystem::path& target() const { return target_; }
  /// Its name until commit(), for those who write it through a descriptor of their own.
  [[nodiscard]] const std::filesystem::path& working_path() const { return part_; }

 private:
  atomic_file(std::filesystem::path target, std::filesystem::path part, int fd);
  [[nodiscard]] tl::unexpected<core::error> failed(int system_error) const;

  std::filesystem::path target_;
  std::filesystem::path part_;  ///< empty once renamed or moved from
  int fd_ = -1;
};

/// Makes names that were created, renamed or removed in `folder` survive a power cut. Where the file system syncs no
/// folders (CIFS), nothing is done, and that is no error: `syncs_folders` says it.
core::result<void> sync_folder(const std::filesystem::path& folder);
bool syncs_folders(const std::filesystem::path& folder);

/// The whole of a small file at once.
core::result<void> write_file_atomically(const std::filesystem::path& target, std::string_view text);

}  // namespace troupe::checkpoint
