// Fakes a file system in memory that loses power: from a chosen operation on everything fails, and data that was not
// synced by then may be lost, torn or reordered, including writes in flight. For tests.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/files/file_system.hpp"

namespace troupe::checkpoint {

/// Which unsynced data survives a power cut.
enum class survival : uint8_t {
  nothing,  ///< synced bytes and names only
  everything,
  any  ///< each name and each write is kept, lost or torn by itself; drawn from a seed
};

class fake_files : public file_system {
 public:
  /// The root folder `/` exists. `capacity_bytes` limits the sum of all files.
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

  /// Returns the number of operations so far that change or sync something. A write in flight counts when it is found
  /// to be over.
  [[nodiscard]] uint64_t operations() const { return operations_; }
  /// Makes operation number `n` (from 0) and all later ones fail.
  void lose_power_at(uint64_t n) { power_until_ = n; }
  /// Makes only operation number `n` fail, without changing anything. `why`: no_space (the disk is full) or io (it is
  /// broken).
  void fail_once_at(uint64_t n, core::error_kind why) { failing_ = n, failure_ = why; }
  /// Returns the file system after a restart, with everything synced; `what` selects which unsynced data survived.
  [[nodiscard]] std::unique_ptr<fake_files> after_power_cut(survival what, uint64_t seed = 0) const;

  /// Limits every read to this many bytes.
  void shorten_reads(size_t max_bytes) { longest_read_ = max_bytes; }
  /// Returns the bytes of a file, for a test to damage; null if there is no such file.
  std::vector<std::byte>* content(const std::filesystem::path& path);

 private:
  friend class fake_output;

  struct name_change {  ///< change of a folder's names that is not synced yet
    std::string gone;   ///< empty: none
    std::string added;  ///< empty: none
    uint64_t node = 0;
  };
  struct node {
    bool folder = false;
    std::vector<std::byte> bytes;  ///< as running programs read them
    std::vector<uint64_t> ends;    ///< offsets at which the unsynced writes end
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

}  // namespace troupe::checkpoint
