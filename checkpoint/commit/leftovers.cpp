// Implements the removal of old checkpoints, and of files that a crashed save has left.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/commit/names.hpp"
#include "storage/files/working_folder.hpp"

namespace troupe::checkpoint {

namespace fs = std::filesystem;

namespace {

/// Checks that `folder` is a folder and not a link to one, whose files may belong to another program.
core::result<void> check_is_folder(storage::file_system& files, const fs::path& folder) {
  TROUPE_ASSIGN(const auto around, files.list(folder.parent_path()));
  const auto itself = std::find_if(around.begin(), around.end(), [&](const storage::folder_entry& e) {
    return e.name == folder.filename().string();
  });
  if (itself == around.end() || itself->kind != storage::entry_kind::folder)
    return fail(error_kind::bad_input, fmt::format("'{}' is not removed: it is not a folder", folder.string()));
  return {};
}

/// Returns the name of the first entry of a folder that is not a file and that Troupe therefore did not create; nothing
/// if all entries are files.
std::optional<std::string> foreign_among(const std::vector<storage::folder_entry>& inside) {
  const auto it = std::ranges::find_if(inside, [](const auto& e) { return e.kind != storage::entry_kind::file; });
  return it == inside.end() ? std::nullopt : std::optional(it->name);
}

/// Returns the entries of a folder that is to be removed. Returns an error if one of them is not a file, or if `folder`
/// is a link.
core::result<std::vector<storage::folder_entry>> files_to_remove(storage::file_system& files, const fs::path& folder) {
  TROUPE_TRY(check_is_folder(files, folder));
  TROUPE_ASSIGN(auto inside, files.list(folder));
  const auto foreign = foreign_among(inside);
  if (!foreign) return inside;
  return fail(error_kind::bad_input, fmt::format("'{}' is not removed: '{}' in it is not a file; move it elsewhere",
                                                 folder.string(), *foreign));
}

}  // namespace

core::result<void> remove_files_and_folder(storage::file_system& files, const fs::path& folder) {
  TROUPE_ASSIGN(const auto inside, files_to_remove(files, folder));
  for (const auto& e : inside) TROUPE_TRY(files.remove(folder / e.name));
  return files.remove(folder);
}

core::result<void> remove_checkpoint(storage::file_system& files, const fs::path& root, const std::string& name) {
  TROUPE_TRY(files_to_remove(files, root / name));
  const fs::path aside = root / storage::beside(name, removing_mark, storage::random_save_id());
  TROUPE_TRY(files.rename(root / name, aside));
  TROUPE_TRY(files.sync_folder(root));
  return remove_files_and_folder(files, aside);
}

namespace {

/// Returns a leftover that reports `name` as not removed, because `folder` holds something that is not a file; nothing
/// if `folder` holds only files.
core::result<std::optional<leftover>> kept_for_foreign(storage::file_system& files, const fs::path& folder,
                                                       const std::string& name) {
  TROUPE_ASSIGN(const auto inside, files.list(folder));
  const auto foreign = foreign_among(inside);
  if (!foreign) return std::nullopt;
  return leftover{name, false, (folder.filename() / *foreign).string()};
}

/// Renames a replaced checkpoint back to its name if `latest` still names it or no other checkpoint has its name.
/// Returns nothing if the replaced checkpoint may be removed.
core::result<std::optional<leftover>> restore(storage::file_system& files, const fs::path& root,
                                              const std::string& aside, const std::string& name,
                                              const std::optional<latest_name>& latest) {
  const auto old = open_folder(files, root / aside);
  TROUPE_ASSIGN(const auto taken, files.exists(root / name));
  const bool named = latest && latest->folder == name;
  if (!old && (taken || !named)) return std::nullopt;  // an interrupted removal left only a part of `aside`
  if (taken && !(named && latest->seal == old->seal)) return std::nullopt;
  if (taken) {
    // The new checkpoint has its final name, but `latest` never named it: its save was not committed.
    const auto now = read_manifest(files, root / name);
    if (now && now->seal == old->seal) return std::nullopt;
    TROUPE_ASSIGN(auto kept, kept_for_foreign(files, root / name, aside));
    if (kept) return kept;
    TROUPE_TRY(remove_checkpoint(files, root, name));
  }
  TROUPE_TRY(files.rename(root / aside, root / name));
  TROUPE_TRY(files.sync_folder(root));
  return leftover{aside, true, {}};
}

}  // namespace

core::result<std::vector<leftover>> remove_leftovers(storage::file_system& files, const fs::path& root) {
  std::vector<leftover> out;
  TROUPE_ASSIGN(const auto there, files.exists(root));
  if (!there) return out;
  TROUPE_ASSIGN(const auto all, files.list(root));
  // If `latest` is damaged, a replaced checkpoint may be the one that it named, and stays.
  const auto latest = read_latest(files, root);
  for (const auto& e : all) {
    const auto of = [&](std::string_view mark) {
      const auto name = stands_beside(e.name, mark);
      return e.kind == storage::entry_kind::folder && name && is_checkpoint_name(*name) ? std::string(*name)
                                                                                        : std::string();
    };
    if (const std::string name = of(replaced_mark); !name.empty()) {
      if (!latest) continue;
      TROUPE_ASSIGN(auto stays, restore(files, root, e.name, name, *latest));
      if (stays) {
        out.push_back(std::move(*stays));
        continue;
      }
    } else if (e.kind == storage::entry_kind::file &&
               storage::is_beside(e.name, latest_file_name, storage::writing_mark)) {
      TROUPE_TRY(files.remove(root / e.name));
      out.push_back({e.name, false, {}});
      continue;
    } else if (of(storage::writing_mark).empty() && of(removing_mark).empty()) {
      continue;
    }
    TROUPE_ASSIGN(auto kept, kept_for_foreign(files, root / e.name, e.name));
    if (!kept) TROUPE_TRY(remove_files_and_folder(files, root / e.name));
    out.push_back(kept ? std::move(*kept) : leftover{e.name, false, {}});
  }
  if (!out.empty()) TROUPE_TRY(files.sync_folder(root));
  return out;
}

}  // namespace troupe::checkpoint
