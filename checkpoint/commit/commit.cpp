// Implements the commit sequence of commit.hpp. While the folder NAME of a checkpoint is written, replaced or removed,
// a folder next to it has one of the working names `NAME.writing-ID`, `NAME.replaced-ID` and `NAME.removing-ID`.
#include "checkpoint/commit/commit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "checkpoint/commit/names.hpp"
#include "core/clock.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

core::result<void> write_synced(storage::file_system& files, const fs::path& path, std::string_view text) {
  TROUPE_ASSIGN(auto file, files.create(path));
  TROUPE_TRY(file->write(std::as_bytes(std::span(text))));
  return file->sync();
}

/// Replaces the file `latest` by one that names the checkpoint. The folder is not synced here, so a power cut may undo
/// the replacement.
core::result<void> name_latest(storage::file_system& files, const fs::path& root, const std::string& name,
                               storage::digest128 seal, storage::digest128 save_id) {
  const fs::path aside = root / storage::beside(std::string(latest_file_name), storage::writing_mark, save_id);
  // A tag may be any name, so `latest` also holds a digest of the tag: a flipped byte in the name of a step must not
  // turn it into a valid tag.
  const auto proof = step_of(name) ? std::string() : storage::to_hex(storage::digest_of(name)) + "\n";
  auto ok = write_synced(files, aside, fmt::format("{}\n{}\n{}", name, storage::to_hex(seal), proof));
  if (ok) ok = files.rename(aside, root / latest_file_name);
  if (!ok) (void)files.remove(aside);
  return ok;
}

/// Checks that a save may replace the folder `name` in `root`. Only runs write folders that are named by a step. A
/// folder that is named by a person's tag may hold anything, so it is replaced only if it is exactly a checkpoint.
core::result<void> check_replaceable(storage::file_system& files, const fs::path& root, const std::string& name) {
  if (step_of(name)) return {};
  TROUPE_ASSIGN(const auto taken, files.exists(root / name));
  if (!taken) return {};
  TROUPE_ASSIGN(const auto strange, strange_in(files, root / name));
  if (!strange) return {};
  return fail(error_kind::bad_input,
              fmt::format("the tag '{}': '{}' already exists and is not replaced: {}; use another tag", name,
                          (root / name).string(), *strange));
}

/// Returns the time of this commit: now, or just after the latest commit if the clock was set back, because commit
/// times ascend.
uint64_t commit_time(storage::file_system& files, const fs::path& root) {
  // The time in nanoseconds since 1970. unix_seconds() returns a double, which is exact to a quarter of a microsecond.
  const auto out = static_cast<uint64_t>(core::unix_seconds() * 1e9);
  const auto latest = read_latest(files, root);
  if (!latest || !*latest) return out;
  const auto before = read_manifest(files, root / (*latest)->folder);
  if (!before || before->content.committed_unix_ns >= INT64_MAX) return out;
  return std::max(out, before->content.committed_unix_ns + 1);
}

}  // namespace

std::string step_folder_name(uint64_t step) { return fmt::format("step-{:08}", step); }

std::optional<uint64_t> step_of(std::string_view folder_name) {
  constexpr std::string_view head = "step-";
  if (!folder_name.starts_with(head)) return std::nullopt;
  const auto step = core::number_of<uint64_t>(folder_name.substr(head.size()));
  return step && step_folder_name(*step) == folder_name ? step : std::nullopt;
}

bool is_tag(std::string_view name) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  // Names of files and folders that readers of checkpoints look for in `root`; none of them can be a tag.
  constexpr std::array<std::string_view, 3> names = {latest_file_name, "latest_universal", "zero"};
  constexpr std::array<std::string_view, 4> endings = {".json", ".pt", ".bin", ".safetensors"};
  if (name.empty() || name.size() > max_tag_bytes || letters.find(name.front()) == std::string_view::npos) return false;
  for (const char c : name)
    if (letters.find(c) == std::string_view::npos && c != '.' && c != '-') return false;
  if (step_of(name) || std::find(names.begin(), names.end(), name) != names.end()) return false;
  if (std::any_of(endings.begin(), endings.end(), [&](std::string_view e) { return name.ends_with(e); })) return false;
  return !stands_beside(name, storage::writing_mark) && !stands_beside(name, replaced_mark) &&
         !stands_beside(name, removing_mark);
}

core::result<void> check_tag(std::string_view tag, uint64_t step) {
  if (step_of(tag) == step || is_tag(tag)) return {};
  return fail(error_kind::bad_input,
              fmt::format("the tag '{}': wanted a plain name of at most {} letters, digits, '.', '_' and '-' that does "
                          "not begin with '.' or '-' and is not reserved for checkpoint files",
                          core::shown(tag), max_tag_bytes));
}

checkpoint_save::checkpoint_save(storage::file_system& files, fs::path root, uint64_t step, storage::digest128 save_id,
                                 std::string name, latest_update latest)
    : files_(&files), root_(std::move(root)), step_(step), save_id_(save_id), name_(std::move(name)), latest_(latest) {}

checkpoint_save::checkpoint_save(checkpoint_save&& other) noexcept
    : files_(other.files_),
      root_(std::move(other.root_)),
      working_(std::exchange(other.working_, fs::path())),
      step_(other.step_),
      save_id_(other.save_id_),
      name_(std::move(other.name_)),
      latest_(other.latest_) {}

checkpoint_save::~checkpoint_save() {
  // If files cannot be removed here, remove_leftovers() removes them at the start of the next run.
  if (!working_.empty()) (void)remove_files_and_folder(*files_, working_);
}

core::result<checkpoint_save> checkpoint_save::begin(storage::file_system& files, const fs::path& root, uint64_t step,
                                                     uint64_t needed_bytes, storage::digest128 save_id,
                                                     const commit_options& options) {
  const std::string name = options.tag.empty() ? step_folder_name(step) : options.tag;
  TROUPE_TRY(check_tag(name, step));
  fs::path there = root;  // becomes `root` or its nearest parent that exists, on whose file system free bytes are read
  for (;;) {
    TROUPE_ASSIGN(const auto found, files.exists(there));
    const fs::path parent = there.has_parent_path() ? there.parent_path() : fs::path(".");
    if (found || parent == there) break;
    there = parent;
  }
  TROUPE_ASSIGN(const auto free, files.free_bytes(there));
  if (free < needed_bytes)
    return fail(error_kind::no_space, fmt::format("a checkpoint of {} bytes does not fit into '{}': {} bytes are free",
                                                  needed_bytes, root.string(), free));
  TROUPE_TRY(check_replaceable(files, root, name));
  TROUPE_TRY(storage::make_folders(files, root));
  checkpoint_save out(files, root, step, save_id, name, options.latest);
  const fs::path working = root / storage::beside(name, storage::writing_mark, save_id);
  TROUPE_TRY(files.make_folder(working));
  out.working_ = working;
  return out;
}

core::result<fs::path> checkpoint_save::commit(manifest m) {
  m.save_id = save_id_;
  m.run.step = step_;
  m.committed_unix_ns = commit_time(*files_, root_);
  formats::put_in_order(m);
  TROUPE_ASSIGN(const auto seal, write_manifest(*files_, working_, m));
  TROUPE_TRY(files_->sync_folder(working_));

  const std::string& name = name_;
  const fs::path target = root_ / name;
  // If latest_update::if_replaced is set, the save writes `latest` only if `latest` names the folder that it replaces.
  // A `latest` that cannot be read must not fail the save.
  const auto latest = read_latest(*files_, root_);
  const bool names = latest_ == latest_update::always || (latest && *latest && (*latest)->folder == name);
  TROUPE_ASSIGN(const auto taken, files_->exists(target));
  const fs::path replaced = taken ? root_ / storage::beside(name, replaced_mark, save_id_) : fs::path();
  if (taken) {
    TROUPE_TRY(files_->rename(target, replaced));
    // Without this sync a power cut could undo this rename and keep the next one, and the old checkpoint would be lost.
    if (auto ok = files_->sync_folder(root_); !ok) return undone(ok.error(), target, replaced);
  }
  if (auto ok = files_->rename(working_, target); !ok) return undone(ok.error(), target, replaced);
  const fs::path working = std::exchange(working_, fs::path());
  auto named = files_->sync_folder(root_);
  if (named && names) named = name_latest(*files_, root_, name, seal, save_id_);
  if (!named) {
    // The rename back to the working name is synced before the destructor removes files: no power cut may leave a part
    // of the new checkpoint under its final name.
    if (files_->rename(target, working) && files_->sync_folder(root_)) working_ = working;
    return undone(named.error(), target, replaced);
  }
  TROUPE_TRY(files_->sync_folder(root_));
  // The new checkpoint is committed; remove_leftovers() later removes or reports files of the old one that could not be
  // removed.
  if (taken) (void)remove_files_and_folder(*files_, replaced);
  return target;
}

tl::unexpected<core::error> checkpoint_save::undone(const core::error& why, const fs::path& target,
                                                    const fs::path& replaced) {
  // If the old checkpoint cannot be renamed back, open_checkpoint() finds it under its `.replaced-` name, and
  // remove_leftovers() renames it at the start of the next run.
  if (!working_.empty() && !replaced.empty() && files_->rename(replaced, target)) (void)files_->sync_folder(root_);
  return fail(why);
}

}  // namespace troupe::checkpoint
