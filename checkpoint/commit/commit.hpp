// Writes a checkpoint so that it exists as a whole or not at all, even after a crash. The commit sequence: all files
// are written to a working folder next to the target and synced, the manifest last; the working folder is synced and
// renamed; its parent is synced; then `latest` is replaced in the same way. Owns this sequence and the names in a
// folder of checkpoints, not the contents of the files. Only one run may write to such a folder at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/commit/open.hpp"
#include "checkpoint/native/manifest_file.hpp"
#include "checkpoint/native/shard.hpp"
#include "core/error.hpp"
#include "formats/source/shard_header.hpp"
#include "storage/files/file_system.hpp"
#include "storage/files/working_folder.hpp"

namespace troupe::checkpoint {

/// The working folder of one save, to which its files are written until the save is committed. Given to each process
/// that writes some of the files; the process that has the checkpoint_save creates, renames and removes the folder.
struct save_place {
  storage::file_system* files = nullptr;
  std::filesystem::path working{};  ///< existing folder to which the files of the save are written
  storage::digest128 save_id{};     ///< id of the save, which is written into each of its files

  /// Creates the shard file with this number (`shard-00003.bin` for 3); each number may be used once. `file_bytes` is
  /// passed to shard_writer::create().
  [[nodiscard]] core::result<shard_writer> create_shard(uint32_t number, uint64_t file_bytes) const {
    return shard_writer::create(*files, working / formats::shard_file_name(number), save_id, file_bytes);
  }
};

inline constexpr std::string_view latest_file_name = "latest";
inline constexpr uint64_t max_latest_bytes = 4096;

/// step_folder_name() returns the name of a step's folder (`step-00000120`, with more digits for larger steps).
/// step_of() returns the step in such a name, and nothing for any other name.
std::string step_folder_name(uint64_t step);
std::optional<uint64_t> step_of(std::string_view folder_name);

/// Maximum length in bytes of a tag (the name of a checkpoint's folder that is not named by its step). File names are
/// limited in length, and the name of the working folder appends a mark and an id to the tag.
inline constexpr size_t max_tag_bytes = 200;

/// True if `name` may be the folder of a checkpoint that is not named by its step: letters, digits, '.', '_' and '-',
/// beginning with a letter, a digit or '_'. False for names that have another meaning in a folder of checkpoints:
/// `latest`, `latest_universal`, `zero`, working names, and names that end in .json, .pt, .bin or .safetensors.
bool is_tag(std::string_view name);
/// True if `name` is the folder name of a step, or a tag.
inline bool is_checkpoint_name(std::string_view name) { return step_of(name) || is_tag(name); }
/// Returns error_kind::bad_input if `tag` is neither a valid tag nor the folder name of `step`.
core::result<void> check_tag(std::string_view tag, uint64_t step);

/// Selects the saves that write their name to the file `latest`: all, or only a save that replaces the folder that
/// `latest` already names.
enum class latest_update : uint8_t { always, if_replaced };

/// Options of a save: the name of the checkpoint, and when the file `latest` is updated to name it.
struct commit_options {
  std::string tag{};  ///< name of the checkpoint's folder; if empty, step_folder_name(step)
  latest_update latest = latest_update::always;
};

/// A save of one checkpoint in progress. If commit() is not called, the destructor removes the files that were written,
/// and the old checkpoints stay. Several threads may write its files, but only one thread writes each file.
class checkpoint_save {
 public:
  /// Creates `root` if it is missing, and the working folder in it. Errors, in which case nothing is created: no_space
  /// if `needed_bytes` (of all files) exceed the free bytes; bad_input for an invalid tag, and for a tag whose folder
  /// exists and holds anything other than one of Troupe's checkpoints.
  static core::result<checkpoint_save> begin(storage::file_system& files, const std::filesystem::path& root,
                                             uint64_t step, uint64_t needed_bytes,
                                             storage::digest128 save_id = storage::random_save_id(),
                                             const commit_options& options = {});

  checkpoint_save(checkpoint_save&& other) noexcept;
  checkpoint_save& operator=(checkpoint_save&&) = delete;
  checkpoint_save(const checkpoint_save&) = delete;
  checkpoint_save& operator=(const checkpoint_save&) = delete;
  ~checkpoint_save();

  /// Returns the place where the files of this save are written, by other processes too, until commit() or the
  /// destructor.
  [[nodiscard]] save_place place() const { return {files_, working_, save_id_}; }
  /// Creates a shard file with save_place::create_shard().
  [[nodiscard]] core::result<shard_writer> create_shard(uint32_t number, uint64_t file_bytes) const {
    return place().create_shard(number, file_bytes);
  }

  /// Commits the save when every shard is finished, and returns the folder. `m` must hold the files and pieces;
  /// commit() sets its step, save_id and time, and sorts its lists. After commit(), the checkpoint survives a power
  /// cut, and `latest` names it if commit_options::latest selects this. A checkpoint of the same name is replaced.
  /// After an error everything is as it was before begin(), with two exceptions: if undoing fails as well, readers
  /// still find the old checkpoint by `latest`, possibly under its working name; if only the last sync failed, `latest`
  /// names the new, complete checkpoint, and a power cut may bring the old one back.
  core::result<std::filesystem::path> commit(manifest m);

 private:
  checkpoint_save(storage::file_system& files, std::filesystem::path root, uint64_t step, storage::digest128 save_id,
                  std::string name, latest_update latest);

  /// Called when commit() fails after it renamed the old checkpoint: renames that checkpoint back from `replaced` to
  /// `target`, then returns `why`.
  tl::unexpected<core::error> undone(const core::error& why, const std::filesystem::path& target,
                                     const std::filesystem::path& replaced);

  storage::file_system* files_;
  std::filesystem::path root_, working_;  ///< working_ is empty after its folder is renamed or the object is moved from
  uint64_t step_;
  storage::digest128 save_id_;
  std::string name_;  ///< name of the checkpoint's folder
  latest_update latest_;
};

struct leftover {  ///< entry of a folder of checkpoints that a crash left behind and remove_leftovers() handled
  std::string name;
  bool restored = false;  ///< true: the entry was a replaced checkpoint, which was renamed back to its own name
  /// Path, below the folder of checkpoints, of the thing inside the leftover that is not a file and because of which
  /// the leftover was not removed. Empty: the leftover was removed or, if `restored`, renamed.
  std::string kept_for;
};

/// Removes the remains of interrupted saves and removals in `root`, which may be missing. Only for the start of a run,
/// while no save is in progress; claim_folder() of folder_lock.hpp ensures that. Touches only working names of Troupe.
/// If `latest` is damaged, replaced checkpoints are kept. A folder that holds anything other than files stays as it is.
core::result<std::vector<leftover>> remove_leftovers(storage::file_system& files, const std::filesystem::path& root);

/// Removes a checkpoint's folder from `root`; a crash never leaves a part of it under its name, because it is renamed
/// first. Returns an error, and changes nothing, if the folder contains anything other than files.
core::result<void> remove_checkpoint(storage::file_system& files, const std::filesystem::path& root,
                                     const std::string& name);

}  // namespace troupe::checkpoint
