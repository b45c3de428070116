// Fakes a file system in memory that can lose power, for tests: from a chosen operation on, everything fails, and
// unsynced data may be lost, torn or reordered, including asynchronous writes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "storage/files/file_system.hpp"

namespace troupe::storage {

/// Which unsynced data survives a power cut.
enum class survival : uint8_t {
  nothing,  ///< only synced bytes and synced names
  everything,
  any  ///< a random choice for each name and each write: kept, lost or torn; depends on a seed
};

class fake_files : public file_system {
 public:
  /// The new file system contains only the root folder `/`. `capacity_bytes` limits the total size of all files.
  explicit fake_files(uint64_t capacity_bytes = uint64_t{1} << 40);

  core::result<std::unique_ptr<output_file>> create(const std::filesystem::path& path) override;
  core::result<std::unique_ptr<input_file>> open(const std::filesystem::path& path) override;
  core::result<void> rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  core::result<void> remove(const std::filesystem::path& path) override;
  core::result<void> make_folder(const std::filesystem::path& path) override;
  core::result<void> sync_folder(const std::filesystem::path& path) override;
  core::result<std::vector<folder_entry>> list(const std::filesystem::path& path) override;
  core::result<bool> exists(const std::filesystem::path& path) override;
  core::result<uint64_t> free_bytes(const std::filesystem::path& path) override;

  /// Returns the number of operations so far that changed or synced something. An asynchronous write counts when its
  /// end is noticed.
  [[nodiscard]] uint64_t operations() const { return operations_; }
  /// Makes operation number `n` (from 0) and all later ones fail.
  void lose_power_at(uint64_t n) { power_until_ = n; }
  /// Makes only operation number `n` fail, without a change. `why` is no_space (the disk is full) or io (the disk is
  /// broken).
  void fail_once_at(uint64_t n, core::error_kind why) { failing_ = n, failure_ = why; }
  /// Returns the file system after a restart, in which everything is synced; `what` selects the unsynced data that
  /// survived.
  [[nodiscard]] std::unique_ptr<fake_files> after_power_cut(survival what, uint64_t seed = 0) const;

  /// Limits every read to this many bytes.
  void shorten_reads(size_t max_bytes) { longest_read_ = max_bytes; }
  /// Returns the bytes of a file, which a test may modify, or null if there is no such file.
  std::vector<std::byte>* content(const std::filesystem::path& path);

 private:
  friend class fake_output;

  struct name_change {  ///< a change of a folder's names that is not synced yet
    std::string gone;   ///< name that the change removes, or empty
    std::string added;  ///< name that the change adds, or empty
    uint64_t node = 0;
  };
  struct node {
    bool folder = false;
    std::vector<std::byte> bytes;  ///< current contents, including unsynced writes
    std::vector<uint64_t> ends;    ///< offset of the end of each unsynced write, in bytes
    uint64_t synced_bytes = 0;
    std::map<std::string, uint64_t> names, synced_names;
    std::vector<name_change> changes;
  };

  core::result<void> spend(const std::filesystem::path& path);
  [[nodiscard]] uint64_t find(const std::filesystem::path& path) const;
  core::result<uint64_t> parent_of(const std::filesystem::path& path) const;
  core::result<void> has_room(const std::filesystem::path& path, uint64_t bytes) const;
  core::result<void> write(uint64_t id, const std::filesystem::path& path, std::span<const std::byte> bytes);
  core::result<void> append(uint64_t id, const std::filesystem::path& path, std::span<const std::byte> bytes);
  core::result<void> sync(uint64_t id, const std::filesystem::path& path);

  std::map<uint64_t, node> nodes_;
  uint64_t next_ = 2, capacity_bytes_, used_bytes_ = 0;
  uint64_t operations_ = 0, power_until_ = UINT64_MAX, failing_ = UINT64_MAX;
  core::error_kind failure_ = core::error_kind::io;
  size_t longest_read_ = SIZE_MAX;
};

}  // namespace troupe::storage
