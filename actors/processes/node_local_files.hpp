// Handles checkpoints of a job whose machines each write to a disk of their own (`checkpoint.use_node_local_storage`):
// the paths of a machine's files, and a file system that reads files of other machines by range. Owns these names;
// machine_files.hpp transfers files, and checkpoint/commit decides, on the machine that leads, when a checkpoint is
// committed.
//
// The machine that leads has an ordinary folder of checkpoints, without the files that ranks of other machines wrote:
// those are under `.parts/<save id>` in the parent of the checkpoints' folders, on the machines that wrote them, from
// the first byte on. A manifest is written once all parts are synced, and therefore commits a checkpoint here, too. The
// other machines get copies of the manifest and of `latest`, in case one of them leads later.
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
#include "checkpoint/files/digest.hpp"
#include "checkpoint/files/file_system.hpp"
#include "checkpoint/native/manifest_file.hpp"

namespace troupe::actors {

/// Returns the folder in which ranks of machines that do not lead write the files of a save.
std::filesystem::path parts_folder(const std::filesystem::path& root, checkpoint::digest128 save_id);

/// Returns the checkpoint that `path` and `tag` select: `path` itself, or the one that its `latest` names. Empty: it is
/// not a checkpoint of Troupe.
std::filesystem::path native_folder(const std::filesystem::path& path, const std::optional<std::string>& tag);

/// Returns the data that the other machines keep of a checkpoint that was committed on the machine that leads.
core::result<committed_call> copy_of(const std::filesystem::path& folder, std::string writers);
/// Stores the data of a committed checkpoint, and removes files of checkpoints that no longer exist. On the machine
/// that leads it only removes files. The error begins with which of the two failed.
core::result<void> keep_copy(const committed_call& c, bool leads);

/// Opens a file for another machine by the names of this file system; opens only files of checkpoints.
core::result<std::unique_ptr<checkpoint::input_file>> open_for_others(const std::string& path);

class node_local_files final : public checkpoint::file_system {
 public:
  struct machine {  ///< one of the other machines of the term, with the process that reads its disk
    uint32_t place = 0;
    std::string host;
    bool leads = false;
  };
  /// `elsewhere`: null if the term has one machine, and `others` is empty.
  node_local_files(std::string host, std::vector<machine> others, std::shared_ptr<machine_files> elsewhere)
      : host_(std::move(host)), others_(std::move(others)), elsewhere_(std::move(elsewhere)) {}

  core::result<std::unique_ptr<checkpoint::output_file>> create(const std::filesystem::path& path) override;
  /// Opens a file here, or on the first other machine that has it. Errors: bad_input, with the file and the machine
  /// that wrote it.
  core::result<std::unique_ptr<checkpoint::input_file>> open(const std::filesystem::path& path) override;
  core::result<void> rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  core::result<void> remove(const std::filesystem::path& path) override;
  core::result<void> make_folder(const std::filesystem::path& path) override;
  core::result<void> sync_folder(const std::filesystem::path& path) override;
  core::result<std::vector<checkpoint::folder_entry>> list(const std::filesystem::path& path) override;
  core::result<bool> exists(const std::filesystem::path& path) override;
  core::result<uint64_t> free_bytes(const std::filesystem::path& path) override;

 private:
  core::result<std::unique_ptr<checkpoint::input_file>> find(const std::filesystem::path& path);
  core::result<std::unique_ptr<checkpoint::input_file>> find_at(const machine& m, const std::filesystem::path& path);
  core::error missing(const std::filesystem::path& path);

  std::string host_;
  std::vector<machine> others_;
  std::shared_ptr<machine_files> elsewhere_;
  std::mutex mutex_;
  std::map<std::filesystem::path, checkpoint::digest128> ids_;  ///< ids of the saves, by folder of the checkpoint
};

}  // namespace troupe::actors
