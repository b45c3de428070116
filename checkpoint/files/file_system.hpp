// The file system as saving and loading use it, and the real one. Owns opening and error messages; commit/commit.hpp
// owns the order of syncs. A fake one that simulates power cuts is tests/fakes/file_system.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "storage/queue/file.hpp"

namespace troupe::checkpoint {

/// Entries of a folder that are listed.
inline constexpr size_t max_folder_entries = 1'000'000;

/// What start_write() wants of addresses and lengths; every write in flight is then a direct one.
inline constexpr uint64_t write_alignment_bytes = 4096;

/// A new file, written from its begin to its end by one thread, which outlives the writes that it started. After an
/// error only destruction makes sense.
class output_file {
 public:
  output_file() = default;
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  virtual ~output_file() = default;  ///< waits for what is in flight and closes; what was not synced may be lost

  /// Reserves room for at most `bytes`; error_kind::no_space where there is none. Must come before any write. A file
  /// that ends earlier is as long as what was written.
  virtual core::result<void> expect(uint64_t bytes);
  /// Appends all of it; the memory is the caller's again when it returns.
  virtual core::result<void> write(std::span<const std::byte> bytes) = 0;
  /// Begins to append memory that begins and ends at a multiple of write_alignment_bytes; what was written before ends
  /// at one too, else error_kind::bug. The memory stays untouched until `wait` with this ticket, or `sync`, returned,
  /// or `is_over`. Blocks only while as many writes are in flight as the file allows. Tickets ascend.
  virtual core::result<uint64_t> start_write(std::span<const std::byte> bytes);
  /// Returns when this write and all before it are over, failed or not; then the first error of any write so far.
  virtual core::result<void> wait(uint64_t ticket);
  /// Whether `wait` would not block.
  virtual bool is_over(uint64_t ticket);
  /// Forces the bytes to the disk and closes. Last call.
  virtual core::result<void> sync() = 0;

 private:
  uint64_t writes_ = 0;  ///< begun, where writing is synchronous
};

/// A regular file that is read at any place, by any number of threads.
class input_file {
 public:
  input_file() = default;
  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;
  virtual ~input_file() = default;

  [[nodiscard]] virtual uint64_t bytes() const = 0;  ///< its length when it was opened
  /// Bytes read, fewer than out.size() at the file's end and, rarely, elsewhere.
  [[nodiscard]] virtual core::result<size_t> read_at(uint64_t offset_bytes, std::span<std::byte> out) const = 0;
  /// The same file for many direct reads at once; nothing where there is no such thing.
  [[nodiscard]] virtual std::optional<storage::file> direct() const { return std::nullopt; }
};

enum class entry_kind : uint8_t { file, folder, other };  ///< `other`: a link, a pipe, a device

struct folder_entry {  ///< one name of a folder
  std::string name;
  entry_kind kind = entry_kind::file;
};

/// Errors name the path. What may survive a power cut before the matching sync is any subset, in any order.
class file_system {
 public:
  file_system() = default;
  file_system(const file_system&) = delete;
  file_system& operator=(const file_system&) = delete;
  virtual ~file_system() = default;

  /// A file that must not exist yet.
  virtual core::result<std::unique_ptr<output_file>> create(const std::filesystem::path& path) = 0;
  /// Links, pipes and folders are refused.
  virtual core::result<std::unique_ptr<input_file>> open(const std::filesystem::path& path) = 0;
  /// Within one folder. A file replaces a file; a folder replaces nothing or an empty folder.
  virtual core::result<void> rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  /// A file or an empty folder.
  virtual core::result<void> remove(const std::filesystem::path& path) = 0;
  /// A folder that must not exist yet, in one that does.
  virtual core::result<void> make_folder(const std::filesystem::path& path) = 0;
  /// Makes names that were created, renamed or removed in `path` survive a power cut.
  virtual core::result<void> sync_folder(const std::filesystem::path& path) = 0;
  /// Ascending by name.
  virtual core::result<std::vector<folder_entry>> list(const std::filesystem::path& path) = 0;
  /// Whether the name is taken, by whatever.
  virtual core::result<bool> exists(const std::filesystem::path& path) = 0;
  /// Bytes that this user may still write where `path` lies.
  virtual core::result<uint64_t> free_bytes(const std::filesystem::path& path) = 0;
};

/// The machine's own; one object, usable from any thread.
file_system& real_files();

/// The whole of a small file; error_kind::limit beyond `max_bytes`, before anything is allocated.
core::result<std::string> read_small_file(file_system& files, const std::filesystem::path& path, uint64_t max_bytes);

/// Exactly `out.size()` bytes. A short read is repeated once for the rest; then an error that names file and offset.
core::result<void> read_exactly(const input_file& file, const std::filesystem::path& path, uint64_t offset_bytes,
                                std::span<std::byte> out);

}  // namespace troupe::checkpoint
