// Writes a checkpoint so that it exists as a whole or not at all, even after a crash. The commit sequence: all files go
// to a working folder beside the target and are synced, the manifest last; the working folder is synced and renamed;
// its parent is synced; then `latest` is replaced in the same way. Owns this sequence and the names in a folder of
// checkpoints, not what the files hold. Only one run may write to such a folder at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/commit/open.hpp"
#include "checkpoint/commit/save_place.hpp"
#include "checkpoint/files/file_system.hpp"
#include "checkpoint/native/manifest_file.hpp"
#include "checkpoint/native/shard.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

inline constexpr std::string_view latest_file_name = "latest";
inline constexpr uint64_t max_latest_bytes = 4096;

/// `step-00000120`, more digits where they are needed; and back, for exactly such names.
std::string step_folder_name(uint64_t step);
std::optional<uint64_t> step_of(std::string_view folder_name);

/// Longest tag in bytes. File names are limited, and working names append a mark and an id to the tag.
inline constexpr size_t max_tag_bytes = 200;

/// Whether `name` may be the folder of a checkpoint that is not named by its step: letters, digits, '.', '_' and '-',
/// beginning with a letter, a digit or '_', and without names and endings that readers of checkpoints take for
/// something else.
bool is_tag(std::string_view name);
/// A step's name or a tag.
inline bool is_checkpoint_name(std::string_view name) { return step_of(name) || is_tag(name); }
/// Errors: bad_input for what is neither a tag nor the name of `step`.
core::result<void> check_tag(std::string_view tag, uint64_t step);

/// Which saves `latest` is pointed at: all, or only one that replaces the folder it names already.
enum class latest_update : uint8_t { always, if_replaced };

/// The name of a saved checkpoint, and whether `latest` is to name it.
struct commit_options {
  std::string tag{};  ///< the folder's name; empty: step_folder_name()
  latest_update latest = latest_update::always;
};

/// A random identifier for one save, from the operating system.
digest128 random_save_id();

/// A save in progress. Without commit() the destructor removes what was written, and the old checkpoints stay.
/// Its files may be written from several threads, each file from one.
class checkpoint_save {
 public:
  /// Makes `root` where it is missing, and the working folder in it. Errors, and nothing is made then: no_space where
  /// `needed_bytes`, of all files, are more than are free; bad_input for an invalid tag, and for a tag whose folder
  /// exists and holds anything but one of our checkpoints.
  static core::result<checkpoint_save> begin(file_system& files, const std::filesystem::path& root, uint64_t step,
                                             uint64_t needed_bytes, digest128 save_id = random_save_id(),
                                             const commit_options& options = {});

  checkpoint_save(checkpoint_save&& other) noexcept;
  checkpoint_save& operator=(checkpoint_save&&) = delete;
  checkpoint_save(const checkpoint_save&) = delete;
  checkpoint_save& operator=(const checkpoint_save&) = delete;
  ~checkpoint_save();

  /// Where this save's files are written, by other processes too, until commit() or the destructor.
  [[nodiscard]] save_place place() const { return {files_, working_, save_id_}; }
  /// As the place's.
  [[nodiscard]] core::result<shard_writer> create_shard(uint32_t number, uint64_t file_bytes) const {
    return place().create_shard(number, file_bytes);
  }

  /// Call it when every shard is finished. `m` holds the files and pieces; step, save_id and time are filled in here,
  /// and lists are sorted. When it returns, the checkpoint survives a power cut and `latest` names it; gives its
  /// folder. A checkpoint of the same name is replaced. On an error everything is as it was before begin(). Two
  /// exceptions: where undoing fails as well, `latest` still finds the old checkpoint, possibly under its working name;
  /// where only the last sync failed, `latest` names the new, complete checkpoint, and a power cut may bring the old
  /// one back.
  core::result<std::filesystem::path> commit(manifest m);

 private:
  checkpoint_save(file_system& files, std::filesystem::path root, uint64_t step, digest128 save_id, std::string name,
                  latest_update latest);

  /// Gives the old checkpoint its name back, then returns `why`.
  tl::unexpected<core::error> undone(const core::error& why, const std::filesystem::path& target,
                                     const std::filesystem::path& replaced);

  file_system* files_;
  std::filesystem::path root_, working_;  ///< working_ is empty once renamed or moved from
  uint64_t step_;
  digest128 save_id_;
  std::string name_;  ///< of its folder
  latest_update latest_;
};

struct leftover {  ///< what a crash left behind
  std::string name;
  bool restored = false;  ///< true: a replaced checkpoint that got its name back; false: it was removed
};

/// Removes what interrupted saves and removals left in `root`, which may be missing. Only for the start of a run, while
/// no save is in progress; claim_folder() of folder_lock.hpp ensures that. Only working names of ours are touched.
/// Where `latest` is damaged, replaced checkpoints are kept.
core::result<std::vector<leftover>> remove_leftovers(file_system& files, const std::filesystem::path& root);

/// Removes a checkpoint's folder from `root`; a crash never leaves a part of it under its name. Refused where the
/// folder holds another folder.
core::result<void> remove_checkpoint(file_system& files, const std::filesystem::path& root, const std::string& name);

}  // namespace troupe::checkpoint
