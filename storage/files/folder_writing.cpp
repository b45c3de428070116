#include "storage/files/folder_writing.hpp"

#include <fmt/format.h>

#include "core/text.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/working_folder.hpp"

namespace troupe::storage {
namespace {

namespace fs = std::filesystem;

/// Maximum depth of folders that remove_tree() removes; the formats written here have fewer levels.
constexpr int max_written_depth = 4;

core::result<void> remove_tree(file_system& files, const fs::path& folder, int depth = 0) {
  if (depth > max_written_depth)
    return fail(error_kind::bad_input,
                fmt::format("'{}' is not removed: its folders are nested too deeply", folder.string()));
  TROUPE_ASSIGN(const auto entries, files.list(folder));
  for (const auto& e : entries) {
    const auto ok =
        e.kind == entry_kind::folder ? remove_tree(files, folder / e.name, depth + 1) : files.remove(folder / e.name);
    if (!ok) return ok;
  }
  return files.remove(folder);
}

core::result<void> sync_tree(file_system& files, const fs::path& folder) {
  TROUPE_ASSIGN(const auto entries, files.list(folder));
  for (const auto& e : entries)
    if (e.kind == entry_kind::folder) TROUPE_TRY(sync_tree(files, folder / e.name));
  return files.sync_folder(folder);
}

}  // namespace

folder_writing::folder_writing(file_system& files, fs::path root, std::string name, uint64_t needed_bytes)
    : files_(&files), root_(std::move(root)), name_(std::move(name)), needed_bytes_(needed_bytes) {}

folder_writing::folder_writing(folder_writing&& other) noexcept
    : files_(other.files_),
      root_(std::move(other.root_)),
      working_(std::exchange(other.working_, {})),
      name_(std::move(other.name_)),
      done_(other.done_),
      needed_bytes_(other.needed_bytes_) {}

folder_writing::~folder_writing() {
  if (!working_.empty()) (void)remove_tree(*files_, working_);
}

core::result<folder_writing> folder_writing::begin(file_system& files, const fs::path& root, const std::string& name,
                                                   uint64_t needed_bytes) {
  if (name.empty() || name.size() > max_written_folder_name_bytes || name.front() == '.' ||
      name.find_first_of("/\n\r\t ") != std::string::npos)
    return fail(error_kind::bad_input, fmt::format("'{}' cannot be the name of a checkpoint's folder: use a name "
                                                   "without '/' and white space that does not begin with '.'",
                                                   core::shown(name)));
  TROUPE_TRY(make_folders(files, root));
  TROUPE_ASSIGN(const auto taken, files.exists(root / name));
  if (taken)
    return fail(error_kind::bad_input,
                fmt::format("'{}' already exists; remove it or use another name", (root / name).string()));
  TROUPE_ASSIGN(const auto entries, files.list(root));
  for (const auto& e : entries)
    if (e.kind == entry_kind::folder && is_beside(e.name, name, writing_mark))
      TROUPE_TRY(remove_tree(files, root / e.name));
  TROUPE_ASSIGN(const auto room, files.free_bytes(root));
  if (room < needed_bytes)
    return fail(error_kind::no_space,
                fmt::format("'{}' needs {} bytes, {} are free", (root / name).string(), needed_bytes, room));
  folder_writing out(files, root, name, needed_bytes);
  const fs::path working = root / beside(name, writing_mark, random_save_id());
  TROUPE_TRY(files.make_folder(working));
  out.working_ = working;
  return out;
}

core::result<void> folder_writing::make_folder(const fs::path& below) const {
  return files_->make_folder(working_ / below);
}

core::result<void> folder_writing::wrote(uint64_t bytes, const progress_function& progress) {
  done_ += bytes;
  if (progress && !progress(done_, needed_bytes_))
    return fail(error_kind::stopped, fmt::format("'{}' was not written: stopped", (root_ / name_).string()));
  return {};
}

core::result<void> folder_writing::commit(const std::string& pointer) {
  TROUPE_TRY(sync_tree(*files_, working_));
  TROUPE_TRY(files_->rename(working_, root_ / name_));
  working_.clear();
  TROUPE_TRY(files_->sync_folder(root_));
  return write_file_atomically(root_ / pointer, name_);
}

}  // namespace troupe::storage
