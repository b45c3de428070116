#include "actors/processes/memory_saves.hpp"

#include <algorithm>
#include <utility>

#include "actors/processes/duplicate.hpp"
#include "checkpoint/commit/open_native.hpp"
#include "storage/files/working_folder.hpp"

namespace troupe::actors {

memory_saves::memory_saves(cluster::process& link)
    : link_(link), files_({.on_finished = [this](const storage::shared_file& f) { finished(f); }}) {}

void memory_saves::use(std::shared_ptr<machine_files> elsewhere, uint32_t copies_to,
                       std::function<void(const std::string&)> warn) {
  elsewhere_ = std::move(elsewhere);
  copies_to_ = copies_to;
  warn_ = std::move(warn);
}

memory_saves::~memory_saves() {
  if (elsewhere_ != nullptr) elsewhere_->end();
}

void memory_saves::serve() {
  if (elsewhere_ != nullptr) elsewhere_->serve(files_, open_on_disk_);
}

void memory_saves::finished(const storage::shared_file& f) {
  // Only files within a save's folder are copied. The file next to the folders names the newest save; it belongs to
  // this process alone, and copies of it would add a file with each save that is never removed.
  if (f.path.parent_path() == root()) return;
  if (f.descriptor >= 0) {
    const auto copy = duplicate(f.descriptor);
    const auto kept = copy ? link_.keep(f.path.string(), f.bytes, cluster::own(*copy)) : core::fail(copy.error());
    if (!kept && warn_ && !link_.ending())
      warn_("checkpoint.memory: '" + f.path.string() + "' would be lost with its process: " + kept.error().text);
  }
  if (elsewhere_ == nullptr || copies_to_ == link_.place() || elsewhere_->is_serving()) return;
  if (const auto copied = elsewhere_->copy(copies_to_, files_, f.path); !copied && !link_.ending())
    warn_("checkpoint.memory: '" + f.path.string() + "' has no copy on another machine: " + copied.error().text);
}

core::result<formats::tensor_source> memory_saves::open(const std::string& folder,
                                                        const std::map<std::string, cluster::file_in_memory>& sent) {
  const std::filesystem::path at = folder;
  TROUPE_TRY(storage::make_folders(files_, at));
  for (const auto& [path, file] : sent) {
    if (std::filesystem::path(path).parent_path() != at) continue;
    if (file.with == nullptr) {
      if (elsewhere_ == nullptr)
        return core::fail(core::error_kind::bug, "'" + path + "': wanted its memory, got none on one machine");
      const auto read = [from = elsewhere_, place = file.place, path](uint64_t offset, std::span<std::byte> out) {
        return from->read(place, path, offset, out);
      };
      TROUPE_TRY(files_.adopt_elsewhere(path, file.bytes, read));
      continue;
    }
    TROUPE_TRY(adopt(path, file));
  }
  folders_ = {folder};
  serve();
  return checkpoint::open_native(files_, at);
}

core::result<void> memory_saves::adopt(const std::filesystem::path& path, const cluster::file_in_memory& file) {
  TROUPE_ASSIGN(const auto copy, duplicate(file.with->number()));
  return files_.adopt(path, copy, file.bytes);
}

core::result<void> memory_saves::keep(const std::string& folder,
                                      const std::map<std::string, cluster::file_in_memory>& sent) {
  const std::filesystem::path at = folder;
  TROUPE_TRY(storage::make_folders(files_, at));
  for (const auto& [path, file] : sent) {
    if (std::filesystem::path(path).parent_path() != at || file.with == nullptr) continue;
    TROUPE_TRY(adopt(path, file));
  }
  serve();
  return {};
}

core::result<std::vector<kept_name>> memory_saves::committed(const std::filesystem::path& folder,
                                                             const std::filesystem::path& written, uint64_t step) {
  link_.keep_whole(folder.string(), written.string(), step);
  std::vector<kept_name> out = {{written.string(), folder.string()}};
  std::erase(folders_, folder.string());
  folders_.push_back(folder.string());
  std::vector<std::string> kept;
  for (const auto& x : folders_) {
    TROUPE_ASSIGN(const auto there, files_.exists(x));
    if (there)
      kept.push_back(x);
    else
      out.push_back({x, {}});
  }
  folders_ = std::move(kept);
  return out;
}

core::result<void> memory_saves::prepare(const std::filesystem::path& working) {
  return storage::make_folders(files_, working);
}

core::result<void> memory_saves::remove_folder(const std::filesystem::path& path) {
  TROUPE_ASSIGN(const auto there, files_.exists(path));
  if (!there) return {};
  TROUPE_ASSIGN(const auto entries, files_.list(path));
  for (const auto& e : entries) TROUPE_TRY(files_.remove(path / e.name));
  return files_.remove(path);
}

core::result<void> memory_saves::follow(const std::vector<kept_name>& names) {
  for (const auto& n : names) {
    if (n.to.empty()) {
      TROUPE_TRY(remove_folder(n.from));
      continue;
    }
    TROUPE_ASSIGN(const auto there, files_.exists(n.from));
    if (!there) continue;
    TROUPE_TRY(remove_folder(n.to));  // removes an earlier save of the same step
    TROUPE_TRY(files_.rename(n.from, n.to));
  }
  return {};
}

}  // namespace troupe::actors
