// Handles checkpoints of a job whose machines each write to a disk of their own (`checkpoint.use_node_local_storage`):
// the paths of a machine's files, and a file system that reads files of other machines by range. Owns these paths;
// machine_files.hpp transfers files, and checkpoint/commit decides on the leading machine (that of the process that
// leads) when a checkpoint is committed.
//
// The leading machine has an ordinary folder of checkpoints, without the files of ranks on other machines: those
// machines write their files under `.parts/<save id>` in the parent of the checkpoints' folders. A manifest is written
// once all files are synced, and therefore commits the checkpoint. The other machines get copies of the manifest and of
// `latest`, in case one of them leads later.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/processes/calls.hpp"
#include "actors/processes/machine_files.hpp"
#include "checkpoint/native/manifest_file.hpp"
#include "storage/files/digest.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::actors {

/// Returns the folder below `root`, the folder of all checkpoints, in which the ranks of all machines except the
/// leading process's machine write their files of the save `save_id`.
std::filesystem::path parts_folder(const std::filesystem::path& root, storage::digest128 save_id);

/// Returns the folder of the checkpoint that `path` and `tag` select: `path` itself, the one called `tag` in it, or the
/// one that its file `latest` names. Empty: there is no checkpoint of Troupe.
std::filesystem::path native_folder(const std::filesystem::path& path, const std::optional<std::string>& tag);

/// Returns the data about a checkpoint, committed on the leading machine, that the other machines store. `writers`:
/// lines with the name of each file and the machine that wrote it.
core::result<committed_call> copy_of(const std::filesystem::path& folder, std::string writers);
/// Stores the data `c` about a committed checkpoint, and removes files of checkpoints that no longer exist. On the
/// leading machine (`leads`), stores only the list of files. The error begins with which of the two failed.
core::result<void> keep_copy(const committed_call& c, bool leads);

/// Opens a file of this machine's disk for a process of another machine, which names it as this file system does;
/// refuses files that do not belong to checkpoints.
core::result<std::unique_ptr<storage::input_file>> open_for_others(const std::string& path);

class node_local_files final : public storage::file_system {
 public:
  struct machine {  ///< one of the other machines of the term, with the process that reads its disk
    uint32_t place = 0;
    std::string host;
    bool leads = false;
  };
  /// `host`: name of this machine. `others`: the other machines. `elsewhere` transfers their files; null if there are
  /// none.
  node_local_files(std::string host, std::vector<machine> others, std::shared_ptr<machine_files> elsewhere)
      : host_(std::move(host)), others_(std::move(others)), elsewhere_(std::move(elsewhere)) {}

  core::result<std::unique_ptr<storage::output_file>> create(const std::filesystem::path& path) override;
  /// Opens a file on this machine or, if it is not here, on the first other machine that has it. Errors: bad_input,
  /// with the names of the file and of the machine that wrote it.
  core::result<std::unique_ptr<storage::input_file>> open(const std::filesystem::path& path) override;
  core::result<void> rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  core::result<void> remove(const std::filesystem::path& path) override;
  core::result<void> make_folder(const std::filesystem::path& path) override;
  core::result<void> sync_folder(const std::filesystem::path& path) override;
  core::result<std::vector<storage::folder_entry>> list(const std::filesystem::path& path) override;
  core::result<bool> exists(const std::filesystem::path& path) override;
  /// Checks, on the leading machine, that a save would not remove another machine's part of a checkpoint that is newer
  /// than this machine's newest one. Checkpoints that this machine has, in `root` (the folder of all checkpoints) or
  /// set aside, are permitted. Errors: bad_input, with that machine and step; peer_lost.
  core::result<void> check_others(const std::filesystem::path& root) const;
  core::result<uint64_t> free_bytes(const std::filesystem::path& path) override;

 private:
  core::result<std::unique_ptr<storage::input_file>> find(const std::filesystem::path& path);
  core::result<std::unique_ptr<storage::input_file>> find_at(const machine& m, const std::filesystem::path& path);
  core::error missing(const std::filesystem::path& path);

  std::string host_;
  std::vector<machine> others_;
  std::shared_ptr<machine_files> elsewhere_;
  std::mutex mutex_;
  std::map<std::filesystem::path, storage::digest128> ids_;  ///< ids of the saves, by folder of the checkpoint
};

}  // namespace troupe::actors
