// The file system interface for saving and loading checkpoints, and its implementation over the machine's files. Owns
// opening and error messages; leaves the order of syncs to checkpoint/commit/commit.hpp. tests/fakes/file_system.hpp is
// an implementation that simulates power cuts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "storage/queue/file.hpp"

namespace troupe::storage {

/// The largest number of entries that file_system::list() returns for one folder; a folder with more is an error.
inline constexpr size_t max_folder_entries = 1'000'000;

/// Alignment in bytes that output_file::start_write() requires of addresses and lengths, so that every write in flight
/// can bypass the page cache.
inline constexpr uint64_t write_alignment_bytes = 4096;

/// A new file that one thread writes from beginning to end; that thread outlives the writes that it started. After an
/// error the object may only be destroyed.
class output_file {
 public:
  output_file() = default;
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  /// Waits for the writes in flight and closes the file; bytes that were not synced may be lost.
  virtual ~output_file() = default;

  /// Reserves room for at most `bytes`, before the first write. Returns error_kind::no_space if there is too little
  /// room. A file that ends earlier is as long as the bytes written to it.
  virtual core::result<void> expect(uint64_t bytes);
  /// Appends all of `bytes`; the caller may reuse the memory when the call returns.
  virtual core::result<void> write(std::span<const std::byte> bytes) = 0;
  /// Starts to append `bytes` and returns a ticket; tickets ascend. Address and length of `bytes` must be multiples of
  /// write_alignment_bytes, and so must the length of the file so far, else error_kind::bug. The caller keeps the
  /// memory unchanged until wait() with this ticket or sync() has returned, or is_over() is true for it. Blocks only
  /// while the file's maximum of writes is in flight.
  virtual core::result<uint64_t> start_write(std::span<const std::byte> bytes);
  /// Blocks until the write of `ticket` and all earlier ones have ended, failed or not; returns the first error of any
  /// write so far.
  virtual core::result<void> wait(uint64_t ticket);
  /// True if a call of wait() with this ticket would return at once.
  virtual bool is_over(uint64_t ticket);
  /// Forces the bytes to the disk and closes the file. The last call on the object.
  virtual core::result<void> sync() = 0;

 private:
  uint64_t writes_ = 0;  ///< last ticket of the base class's start_write(), which writes synchronously
};

/// A regular file that any number of threads read at any offset.
class input_file {
 public:
  input_file() = default;
  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;
  virtual ~input_file() = default;

  [[nodiscard]] virtual uint64_t bytes() const = 0;  ///< returns the length of the file when it was opened
  /// Reads into `out` at `offset_bytes` and returns the number of bytes read: fewer than out.size() at the end of the
  /// file and, rarely, elsewhere.
  [[nodiscard]] virtual core::result<size_t> read_at(uint64_t offset_bytes, std::span<std::byte> out) const = 0;
  /// Returns a handle of the file for many direct reads at once; nothing if the file has no such handle.
  [[nodiscard]] virtual std::optional<file> direct() const { return std::nullopt; }
};

/// Kind of an entry of a folder; `other`: a link, a pipe, a device.
enum class entry_kind : uint8_t { file, folder, other };

struct folder_entry {  ///< one entry of a folder
  std::string name;
  entry_kind kind = entry_kind::file;
};

/// Interface of a file system. Errors name the path. After a power cut any subset of the changes since the last
/// matching sync may have survived, in any order.
class file_system {
 public:
  file_system() = default;
  file_system(const file_system&) = delete;
  file_system& operator=(const file_system&) = delete;
  virtual ~file_system() = default;

  /// Creates a file for writing; an existing name is an error.
  virtual core::result<std::unique_ptr<output_file>> create(const std::filesystem::path& path) = 0;
  /// Opens a file for reading; links, pipes and folders are errors.
  virtual core::result<std::unique_ptr<input_file>> open(const std::filesystem::path& path) = 0;
  /// Renames an entry within one folder. A file replaces a file; a folder replaces only an empty folder.
  virtual core::result<void> rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  /// Removes a file or an empty folder.
  virtual core::result<void> remove(const std::filesystem::path& path) = 0;
  /// Creates a folder. The name must not exist yet, its parent folder must.
  virtual core::result<void> make_folder(const std::filesystem::path& path) = 0;
  /// Makes names that were created, renamed or removed in `path` survive a power cut.
  virtual core::result<void> sync_folder(const std::filesystem::path& path) = 0;
  /// Returns the entries of a folder, in ascending order of their names.
  virtual core::result<std::vector<folder_entry>> list(const std::filesystem::path& path) = 0;
  /// True if an entry of any kind has the name.
  virtual core::result<bool> exists(const std::filesystem::path& path) = 0;
  /// Returns the number of bytes that this user may still write to the file system of `path`.
  virtual core::result<uint64_t> free_bytes(const std::filesystem::path& path) = 0;
};

/// Returns the machine's own file system; one object, usable from any thread.
file_system& real_files();

/// True if the machine's own file system has an entry at `path`; false if the path cannot be examined.
bool is_there(const std::filesystem::path& path);
/// True if `path` is a folder of the machine's own file system; false if the path cannot be examined.
bool is_folder(const std::filesystem::path& path);
/// Returns the names in a folder of the machine's own file system for which `is_wanted` returns true, ascending; none
/// if the folder cannot be listed. Examines at most max_folder_entries names.
std::vector<std::string> names_in(const std::filesystem::path& folder,
                                  const std::function<bool(std::string_view)>& is_wanted);

/// Reads a whole small file. Returns error_kind::limit if it is longer than `max_bytes`, before memory is allocated.
core::result<std::string> read_small_file(file_system& files, const std::filesystem::path& path, uint64_t max_bytes);

/// Reads exactly `out.size()` bytes. After a short read it reads the rest once more; if bytes are still missing, the
/// error names the file and the offset.
core::result<void> read_exactly(const input_file& file, const std::filesystem::path& path, uint64_t offset_bytes,
                                std::span<std::byte> out);

}  // namespace troupe::storage
