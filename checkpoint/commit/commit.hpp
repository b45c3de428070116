// How a checkpoint comes to be, whole or not at all, whatever happens: everything in a folder beside the target, every
// file synced, the manifest last, the folder synced, renamed, its parent synced, then `latest` likewise. Owns the names
// in a checkpoints' folder and the commit sequence; what the files hold is others' business. One run writes to a
// folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/commit/open.hpp"
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

/// Longest tag in bytes: a name beside it has a mark and an id too.
inline constexpr size_t max_tag_bytes = 200;

/// Whether a folder of that name may be a checkpoint's beside those of steps: letters, digits, '.', '_' and '-', the
/// first a letter, a digit or '_'; no name or ending that means something else among checkpoints.
bool is_tag(std::string_view name);
/// A step's name or a tag.
inline bool is_checkpoint_name(std::string_view name) { return step_of(name) || is_tag(name); }
/// Errors: bad_input for what is neither a tag nor the name of `step`.
core::result<void> check_tag(std::string_view tag, uint64_t step);

/// Which saves `latest` is pointed at: all, or only one that replaces the folder it names already.
enum class latest_update : uint8_t { always, if_replaced };

/// How a save takes its place among others.
struct commit_options {
  std::string tag{};  ///< the folder's name; empty: step_folder_name()
  latest_update latest = latest_update::always;
};

/// A name for one save, from the system's randomness.
digest128 random_save_id();

/// One save on its way. Without commit() the destructor removes what was written, and the old checkpoints stay.
/// Its files may be written from several threads, each file from one.
class checkpoint_save {
 public:
  /// Makes `root` where it is missing, and the working folder in it. Errors, and nothing is made then: no_space where
  /// `needed_bytes`, of all files, are more than are free; bad_input for a tag that is none, and for
  /// one that names a folder which is no checkpoint of ours alone.
  static core::result<checkpoint_save> begin(file_system& files, const std::filesystem::path& root, uint64_t step,
                                             uint64_t needed_bytes, digest128 save_id = random_save_id(),
                                             const commit_options& options = {});

  checkpoint_save(checkpoint_save&& other) noexcept;
  checkpoint_save& operator=(checkpoint_save&&) = delete;
  checkpoint_save(const checkpoint_save&) = delete;
  checkpoint_save& operator=(const checkpoint_save&) = delete;
  ~checkpoint_save();

  /// The file `shard-00003.bin` of writer 3; each number once. `file_bytes` as shard_writer::create() takes them.
  [[nodiscard]] core::result<shard_writer> create_shard(uint32_t number, uint64_t file_bytes) const;

  /// After every shard is finished: `m` holds their files and pieces; step, save_id and time are filled in, order too.
  /// From the return on the checkpoint survives a power cut and `latest` names it; gives its folder. A checkpoint of
  /// the same name is replaced. An error leaves everything as it was before begin(), unless undoing fails too: then
  /// `latest` still means the old checkpoint, wherever that lies. Only where the last sync failed `latest` names the
  /// new one, which is whole, and a power cut may bring the old one back.
  core::result<std::filesystem::path> commit(manifest m);

 private:
  checkpoint_save(file_system& files, std::filesystem::path root, uint64_t step, digest128 save_id, std::string name,
                  latest_update latest);

  /// The error, after the old checkpoint took its name again.
  tl::unexpected<core::error> undone(const core::error& why, const std::filesystem::path& target,
                                     const std::filesystem::path& replaced);

  file_system* files_;
  std::filesystem::path root_, working_;  ///< working_ is empty once renamed or moved from
  uint64_t step_;
  digest128 save_id_;
  std::string name_;  ///< of its folder
  latest_update latest_;
};

struct leftover {  ///< what a crash left, and what became of it
  std::string name;
  bool restored = false;  ///< a replaced checkpoint that took its name again; else removed
};

/// Removes what interrupted saves and removals left in `root`, which may be missing. For the start of a run, while no
/// save is on its way: folder_lock.hpp's claim_folder() sees to that. Only names of ours are touched. With a damaged
/// `latest` what was put aside stays.
core::result<std::vector<leftover>> remove_leftovers(file_system& files, const std::filesystem::path& root);

/// Removes a folder of `root` so that a crash never leaves a part of it under its name. Its files go, a folder in it
/// is refused.
core::result<void> remove_checkpoint(file_system& files, const std::filesystem::path& root, const std::string& name);

}  // namespace troupe::checkpoint
