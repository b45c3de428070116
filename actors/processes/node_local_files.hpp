// Checkpoints of a job whose machines each write to a disk of their own (`checkpoint.use_node_local_storage`): where a
// machine's files lie, and a file system that reads those of other machines by range. Owns these names; what crosses is
// machine_files.hpp's, when a checkpoint is one is checkpoint/commit's, on the machine that leads.
//
// The machine that leads has a folder of checkpoints like any other, but for the files that ranks of other machines
// wrote: those lie under `.parts/<save id>` beside the folders, on the machines that wrote them, from their first byte
// on. So a manifest, which is written once all parts are synced, is what makes a checkpoint here, too. The others get
// copies of it and of `latest`, for the day when one of them leads.
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

/// Where ranks of machines that do not lead write the files of a save.
std::filesystem::path parts_folder(const std::filesystem::path& root, checkpoint::digest128 save_id);

/// The checkpoint that `path` and `tag` mean: itself, or what its `latest` names. Empty: it is none of ours.
std::filesystem::path native_folder(const std::filesystem::path& path, const std::optional<std::string>& tag);

/// Of a checkpoint that was committed on the machine that leads: what the others keep of it.
core::result<committed_call> copy_of(const std::filesystem::path& folder, std::string writers);
/// Of the others: keeps it, and removes files of checkpoints that there are no more. On the machine that leads only the
/// last.
core::result<void> keep_copy(const committed_call& c, bool leads);

/// A file of another machine, asked for by these names; only files of checkpoints are given.
core::result<std::unique_ptr<checkpoint::input_file>> open_for_others(const std::string& path);

class node_local_files final : public checkpoint::file_system {
 public:
  struct machine {  ///< another one of the term
    uint32_t place = 0;
    std::string host;
    bool leads = false;
  };
  /// `elsewhere`: null where the term has one machine, and no others.
  node_local_files(std::string host, std::vector<machine> others, std::shared_ptr<machine_files> elsewhere)
      : host_(std::move(host)), others_(std::move(others)), elsewhere_(std::move(elsewhere)) {}

  core::result<std::unique_ptr<checkpoint::output_file>> create(const std::filesystem::path& path) override;
  /// Here, or on the first other machine that has it. Errors: bad_input, with the file and the host that wrote it.
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
  std::map<std::filesystem::path, checkpoint::digest128> ids_;  ///< by folder
};

}  // namespace troupe::actors
