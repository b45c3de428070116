// A file system in memory that the processes of a machine share. It holds the checkpoint of every step, which survives
// the process that wrote it. Each process has its own names; the bytes of a file are one segment of shared memory,
// which other processes adopt under names of their own. Owns names and segments; leaves to the caller how descriptors
// reach other processes and that names change in the same way in all of them.
//
// In a save of several processes, every process that does not lead the save makes a working folder of the same name
// (make_folders). When the leading process has committed, each other process renames its folder as the leader did and
// removes the previous checkpoint. No process removes the previous checkpoint earlier, because the memory of a removed
// file is overwritten by a later file. A process that adopts overwritten memory detects it, because no digest matches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage/files/file_system.hpp"
#include "storage/files/memory_segments.hpp"

namespace troupe::storage {

/// One complete file, and the memory that contains its bytes.
struct shared_file {
  std::filesystem::path path;
  int descriptor = -1;  ///< descriptor of its memory, owned by the memory_files; -1: empty, or on another machine
  uint64_t bytes = 0;
};

/// Options of a memory_files: its limit of memory, and a callback for files that have been synced.
struct memory_files_options {
  /// Maximum sum of the bytes of files that this process wrote and of the memory that it keeps for later files.
  uint64_t limit_bytes = uint64_t{1} << 60;
  /// Called when a file is synced, in the thread that syncs. The descriptor is valid during the call.
  std::function<void(const shared_file&)> on_finished{};
};

/// A file system in memory, for any number of threads. Paths are absolute, or are taken as relative to `/`, which
/// always exists. Nothing survives a power cut, so sync_folder() does nothing. Errors are the same as in the real
/// file system.
class memory_files final : public file_system {
 public:
  explicit memory_files(memory_files_options options = {});
  ~memory_files() override;

  core::result<std::unique_ptr<output_file>> create(const std::filesystem::path& path) override;
  core::result<std::unique_ptr<input_file>> open(const std::filesystem::path& path) override;
  core::result<void> rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  core::result<void> remove(const std::filesystem::path& path) override;
  core::result<void> make_folder(const std::filesystem::path& path) override;
  core::result<void> sync_folder(const std::filesystem::path& path) override;
  core::result<std::vector<folder_entry>> list(const std::filesystem::path& path) override;
  core::result<bool> exists(const std::filesystem::path& path) override;
  /// Returns the bytes that the limit and the machine leave free. Memory kept for later files counts as free, also the
  /// memory that other processes keep since files adopted from them were removed here.
  core::result<uint64_t> free_bytes(const std::filesystem::path& path) override;

  /// Makes the first `bytes` bytes of another process's memory appear as a file, which replaces a file of that name.
  /// Takes ownership of the descriptor, on errors too. Errors: bad_input if the folder is missing, the name is a
  /// folder's, shared_memory::open() refuses the memory or it is shorter than `bytes`; limit.
  core::result<void> adopt(const std::filesystem::path& path, int descriptor, uint64_t bytes);
  /// Fills `out` with the bytes of a file at an offset. Any thread may call it.
  using reader = std::function<core::result<void>(uint64_t offset_bytes, std::span<std::byte> out)>;
  /// Makes a file of `bytes` bytes in another machine's memory, which `read` reads, appear at `path`, where it replaces
  /// a file of that name. Errors: bad_input if the folder is missing or `path` is a folder.
  core::result<void> adopt_elsewhere(const std::filesystem::path& path, uint64_t bytes, reader read);
  /// Returns the bytes of shared memory that files written in this process use and keep.
  [[nodiscard]] segment_use use() const { return segments_->use(); }

 private:
  class output;
  class input;
  /// The content of one file.
  struct content {
    memory_segments::segment memory{};  ///< memory of the file; null: none yet, or in another machine
    uint64_t bytes = 0;
    bool adopted = false;
    reader read{};  ///< reads a file that is in another machine's memory; else empty
  };
  using names = std::map<std::string, std::shared_ptr<content>, std::less<>>;

  core::result<void> put(const std::filesystem::path& path, content file);
  [[nodiscard]] bool is_folder(const std::string& path) const;
  /// Checks that the parent of `path` is a folder, so that a name can be made there.
  [[nodiscard]] core::result<void> has_parent(const char* action, const std::filesystem::path& path) const;
  [[nodiscard]] bool is_empty_folder(const std::string& path) const;
  void forget_file(const content& file);

  memory_files_options options_;
  std::shared_ptr<memory_segments> segments_;
  mutable std::mutex mutex_;
  names names_;                        ///< path -> content, null for a folder; does not contain `/`
  uint64_t kept_elsewhere_bytes_ = 0;  ///< bytes of removed files whose memory other processes may keep
};

}  // namespace troupe::storage
