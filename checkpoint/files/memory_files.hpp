// A file system in memory that processes of a machine share: a checkpoint of every step goes there, and outlives the
// process that wrote it. Each process has its own names; the bytes of a file are one segment of shared memory, which
// other processes adopt under a name of theirs. Owns names and segments; who carries descriptors between processes, and
// has names changed alike everywhere, is the caller's business.
//
// A save of several processes: one that joins makes the working folder (make_folders) and, when the leading process has
// committed, renames it as that did and removes the checkpoint before. Until then it keeps its files: memory of a file
// that is removed is written over by a later one. What adopts it would see that, since no digest is right then.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/files/memory_segments.hpp"

namespace troupe::checkpoint {

struct shared_file {  ///< one whole file
  std::filesystem::path path;
  int descriptor = -1;  ///< of its memory, and its owner's; -1 where the file is empty
  uint64_t bytes = 0;
};

struct memory_files_options {                ///< limits, and whom to tell
  uint64_t limit_bytes = uint64_t{1} << 60;  ///< of files written here and of memory kept for later ones
  /// Called when a file is synced, in that thread. The descriptor is good during the call.
  std::function<void(const shared_file&)> on_finished{};
};

/// For any number of threads. Paths are absolute, or begin at `/` all the same; `/` exists. Nothing survives a power
/// cut, so syncing a folder does nothing. Errors are as the real file system's.
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
  /// What the limit and the machine leave, memory kept for later files with it, also such that other processes keep
  /// since files of theirs were removed here.
  core::result<uint64_t> free_bytes(const std::filesystem::path& path) override;

  /// The first `bytes` of another process's memory appear as a file, in the place of one of that name. The descriptor
  /// is ours from now on, on errors too. Errors: bad_input where the folder is missing, the name is a folder's, or the
  /// memory is not as shared_memory::open() wants it or shorter than `bytes`; limit.
  core::result<void> adopt(const std::filesystem::path& path, int descriptor, uint64_t bytes);
  /// A file of `bytes` that lies in another machine's memory appears at `path`, in the place of one of that name.
  /// `read` fills a range of it from its offset; any thread. Errors: bad_input where the folder is missing or the name
  /// is a folder's.
  using reader = std::function<core::result<void>(uint64_t offset_bytes, std::span<std::byte> out)>;
  core::result<void> adopt_elsewhere(const std::filesystem::path& path, uint64_t bytes, reader read);
  /// The files of a folder, written here or adopted, for a process that has none of them. Descriptors stay good while
  /// the files do.
  core::result<std::vector<shared_file>> files_in(const std::filesystem::path& folder);

  /// Gives memory that is kept for later files back to the machine: when files will have other sizes.
  void forget_kept() { segments_->forget(); }
  /// Of files written here.
  [[nodiscard]] segment_use use() const { return segments_->use(); }

 private:
  class output;
  class input;
  struct content {                      ///< of one file
    memory_segments::segment memory{};  ///< null: none yet
    uint64_t bytes = 0;
    bool adopted = false;
    reader read{};  ///< of one that lies elsewhere
  };
  using names = std::map<std::string, std::shared_ptr<content>, std::less<>>;

  core::result<void> put(const std::filesystem::path& path, content file);
  [[nodiscard]] bool is_folder(const std::string& path) const;
  /// Whether a name may be made at `path`.
  [[nodiscard]] core::result<void> has_parent(const char* deed, const std::filesystem::path& path) const;
  [[nodiscard]] bool is_empty_folder(const std::string& path) const;
  void forget_file(const content& file);

  memory_files_options options_;
  std::shared_ptr<memory_segments> segments_;
  mutable std::mutex mutex_;
  names names_;                        ///< by path, null for a folder; `/` is not among them
  uint64_t kept_elsewhere_bytes_ = 0;  ///< of adopted files that were removed
};

}  // namespace troupe::checkpoint
