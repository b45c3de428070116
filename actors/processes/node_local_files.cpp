#include "actors/processes/node_local_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/commit/names.hpp"
#include "checkpoint/commit/node_parts.hpp"
#include "checkpoint/commit/set_aside.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/working_folder.hpp"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
using storage::input_file;
using storage::real_files;

constexpr std::string_view parts_name = checkpoint::node_parts_name, writers_name = checkpoint::node_writers_name;
constexpr std::string_view disk_mark = machine_files::disk_mark;

bool is_of_checkpoints(const std::string& name) {
  return name == checkpoint::manifest_file_name || name == checkpoint::latest_file_name || name == writers_name ||
         (name.starts_with("shard-") && name.ends_with(".bin"));
}

/// True for files that are valid only on the leading machine, because copies on other machines may be old.
bool is_of_leader(const fs::path& path) {
  return path.filename() == checkpoint::manifest_file_name || path.filename() == checkpoint::latest_file_name;
}

class far_file final : public input_file {  ///< reads a file on another machine's disk by range
 public:
  far_file(std::shared_ptr<machine_files> from, uint32_t place, std::string path, uint64_t bytes)
      : from_(std::move(from)), place_(place), path_(std::move(path)), bytes_(bytes) {}
  [[nodiscard]] uint64_t bytes() const override { return bytes_; }
  [[nodiscard]] core::result<size_t> read_at(uint64_t offset_bytes, std::span<std::byte> out) const override {
    if (offset_bytes >= bytes_) return size_t{0};
    const auto part = out.first(std::min<uint64_t>(out.size(), bytes_ - offset_bytes));
    TROUPE_TRY(from_->read(place_, path_, offset_bytes, part));
    return part.size();
  }

 private:
  std::shared_ptr<machine_files> from_;
  uint32_t place_;
  std::string path_;
  uint64_t bytes_;
};

core::result<std::set<std::string>> ids_in(const fs::path& root) {
  std::set<std::string> out;
  TROUPE_ASSIGN(const auto all, real_files().list(root));
  for (const auto& e : all)
    if (e.kind == storage::entry_kind::folder)
      if (const auto known = checkpoint::read_manifest(real_files(), root / e.name))
        out.insert(storage::to_hex(known->content.save_id));
  return out;
}

/// Returns the folders to which runs have set aside checkpoints of `root`.
std::vector<fs::path> places_aside(const fs::path& root) {
  std::vector<fs::path> out;
  const auto all = real_files().list(root.parent_path());
  if (!all) return out;
  for (const auto& e : *all)
    if (e.kind == storage::entry_kind::folder && checkpoint::origin_of_place_aside(e.name) == root.filename())
      out.push_back(root.parent_path() / e.name);
  return out;
}

/// Removes this machine's parts of all checkpoints whose save id is not in `stay`.
core::result<void> remove_parts_but(const fs::path& root, const std::set<std::string>& stay) {
  const fs::path parts = root / parts_name;
  const auto there = real_files().exists(parts);
  if (!there || !*there) return there ? core::result<void>() : core::fail(there.error());
  TROUPE_ASSIGN(const auto all, real_files().list(parts));
  core::result<void> removed;
  for (const auto& e : all)
    if (storage::digest_from_hex(e.name) && !stay.contains(e.name))
      if (auto ok = checkpoint::remove_files_and_folder(real_files(), parts / e.name); !ok) removed = std::move(ok);
  return removed;
}

}  // namespace

fs::path parts_folder(const fs::path& root, storage::digest128 save_id) {
  return checkpoint::node_parts_folder(root, save_id);
}

fs::path native_folder(const fs::path& path, const std::optional<std::string>& tag) {
  std::error_code e;
  for (const fs::path& root : {path, path / "checkpoints"}) {
    const fs::path at = tag ? root / *tag : root;
    if (fs::exists(at / checkpoint::manifest_file_name, e)) return at;
    const auto latest = checkpoint::read_latest(real_files(), root);
    if (!tag && latest && *latest && fs::exists(root / (*latest)->folder / checkpoint::manifest_file_name, e))
      return root / (*latest)->folder;
  }
  return {};
}

core::result<committed_call> copy_of(const fs::path& folder, std::string writers) {
  committed_call out{folder.string(), {}, {}, {}, {}, std::move(writers)};
  const fs::path root = folder.parent_path();
  TROUPE_ASSIGN(auto manifest, storage::read_small_file(real_files(), folder / checkpoint::manifest_file_name,
                                                        checkpoint::max_manifest_bytes));
  out.manifest = std::move(manifest);
  if (const auto there = real_files().exists(root / checkpoint::latest_file_name); there && *there) {
    TROUPE_ASSIGN(auto latest, storage::read_small_file(real_files(), root / checkpoint::latest_file_name,
                                                        checkpoint::max_latest_bytes));
    out.latest = std::move(latest);
  }
  TROUPE_ASSIGN(const auto ids, ids_in(root));
  out.save_ids.assign(ids.begin(), ids.end());
  for (const auto& place : places_aside(root)) {
    TROUPE_ASSIGN(const auto aside, ids_in(place));
    out.aside_ids.insert(out.aside_ids.end(), aside.begin(), aside.end());
  }
  return out;
}

namespace {

/// Stores on this machine the manifest of a committed checkpoint, the list of the machines that wrote its files, and
/// `latest`; on the leading machine, which has the manifest and `latest`, only the list.
core::result<void> store_copy(const committed_call& c, bool leads) {
  const fs::path folder = c.folder, root = folder.parent_path();
  auto& files = real_files();
  if (!leads) {
    TROUPE_TRY(storage::make_folders(files, folder));
    TROUPE_TRY(storage::write_file_atomically(folder / checkpoint::manifest_file_name, c.manifest));
  }
  TROUPE_ASSIGN(const auto known, checkpoint::read_manifest(files, folder));
  const fs::path parts = parts_folder(root, known.content.save_id);
  TROUPE_TRY(storage::make_folders(files, parts));
  TROUPE_TRY(storage::write_file_atomically(parts / writers_name, c.writers));
  if (!leads && !c.latest.empty())
    TROUPE_TRY(storage::write_file_atomically(root / checkpoint::latest_file_name, c.latest));
  return {};
}

/// Removes this machine's files of checkpoints that no longer exist. Tries all of them, and returns the last failure.
core::result<void> remove_old_copies(const committed_call& c, bool leads) {
  const fs::path root = fs::path(c.folder).parent_path();
  auto& files = real_files();
  std::set<std::string> stay(c.save_ids.begin(), c.save_ids.end());
  TROUPE_ASSIGN(const auto all, files.list(root));
  core::result<void> removed;
  for (const auto& e : all) {
    if (leads || e.kind != storage::entry_kind::folder || !checkpoint::is_checkpoint_name(e.name)) continue;
    const auto old = checkpoint::read_manifest(files, root / e.name);
    if (!old || stay.contains(storage::to_hex(old->content.save_id))) continue;
    if (auto ok = checkpoint::remove_checkpoint(files, root, e.name); !ok) removed = std::move(ok);
  }
  // The leading machine alone has the manifests of checkpoints that were set aside; all machines keep their parts.
  stay.insert(c.aside_ids.begin(), c.aside_ids.end());
  TROUPE_TRY(remove_parts_but(root, stay));
  return removed;
}

}  // namespace

core::result<void> keep_copy(const committed_call& c, bool leads) {
  if (auto ok = store_copy(c, leads); !ok)
    return core::fail(ok.error().in(leads ? "cannot store which machine wrote which of its files"
                                          : "cannot store a copy of its manifest"));
  if (auto ok = remove_old_copies(c, leads); !ok)
    return core::fail(ok.error().in("cannot remove the files of older checkpoints"));
  return {};
}

core::result<std::unique_ptr<input_file>> open_for_others(const std::string& path) {
  const fs::path at = path.substr(disk_mark.size());
  if (!is_of_checkpoints(at.filename().string()))
    return core::fail(error_kind::bad_input, "'" + at.string() + "': wanted a file of a checkpoint");
  return real_files().open(at);
}

core::result<std::unique_ptr<storage::output_file>> node_local_files::create(const fs::path& path) {
  return real_files().create(path);
}
core::result<void> node_local_files::rename(const fs::path& from, const fs::path& to) {
  return real_files().rename(from, to);
}
core::result<void> node_local_files::remove(const fs::path& path) { return real_files().remove(path); }
core::result<void> node_local_files::make_folder(const fs::path& path) { return real_files().make_folder(path); }
core::result<void> node_local_files::sync_folder(const fs::path& path) { return real_files().sync_folder(path); }
core::result<std::vector<storage::folder_entry>> node_local_files::list(const fs::path& path) {
  return real_files().list(path);
}
core::result<uint64_t> node_local_files::free_bytes(const fs::path& path) { return real_files().free_bytes(path); }

core::result<bool> node_local_files::exists(const fs::path& path) {
  if (is_of_leader(path))
    for (const auto& m : others_) {
      if (!m.leads) continue;
      const auto there = find_at(m, path);
      if (!there && there.error().kind == error_kind::peer_lost) return core::fail(there.error());
      return there.has_value();
    }
  return real_files().exists(path);
}

core::result<std::unique_ptr<input_file>> node_local_files::find_at(const machine& m, const fs::path& path) {
  // Requests the size first, because the other process would refuse a range that begins after the end of the file.
  const std::string name = std::string(disk_mark) + path.string();
  TROUPE_ASSIGN(const auto bytes, elsewhere_->size(m.place, name));
  return std::make_unique<far_file>(elsewhere_, m.place, name, bytes);
}

core::result<std::unique_ptr<input_file>> node_local_files::find(const fs::path& path) {
  const auto here = real_files().exists(path);
  if (here && *here) return real_files().open(path);
  for (const auto& m : others_) {
    auto there = find_at(m, path);
    if (there || there.error().kind == error_kind::peer_lost) return there;
  }
  return core::fail(
      error_kind::bad_input,
      "'" + path.string() + "' is on the disk of no connected machine: start the job with the machine that wrote it");
}

core::result<std::unique_ptr<input_file>> node_local_files::open(const fs::path& path) {
  if (is_of_leader(path)) {
    for (const auto& m : others_)
      if (m.leads) return find_at(m, path);
    return real_files().open(path);
  }
  std::optional<storage::digest128> id;
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = ids_.find(path.parent_path()); at != ids_.end()) id = at->second;
  }
  if (!id) {
    TROUPE_ASSIGN(const auto known, checkpoint::read_manifest(*this, path.parent_path()));
    id = known.content.save_id;
    const std::lock_guard lock(mutex_);
    ids_[path.parent_path()] = *id;
  }
  const fs::path root = path.parent_path().parent_path(), parts = parts_folder(root, *id);
  std::vector<fs::path> places{parts / path.filename(), path};
  // The machines' parts of a checkpoint that was set aside stay in the folder that it was in.
  const fs::path origin = checkpoint::origin_of_place_aside(root);
  if (!origin.empty()) places.push_back(parts_folder(origin, *id) / path.filename());
  for (const auto& at : places) {
    auto found = find(at);
    if (found || found.error().kind == error_kind::peer_lost) return found;
  }
  return core::fail(missing(parts / path.filename()));
}

core::error node_local_files::missing(const fs::path& path) {
  std::string wrote;
  if (const auto file = find(path.parent_path() / writers_name);
      file && (*file)->bytes() < checkpoint::max_node_writers_bytes) {
    std::string text((*file)->bytes(), '\0');
    if (storage::read_exactly(**file, path, 0, std::as_writable_bytes(std::span(text)))) {
      const auto all = checkpoint::node_writers_in(text);
      if (const auto at = all.find(path.filename().string()); at != all.end()) wrote = at->second;
    }
  }
  std::vector<std::string> there{host_};
  for (const auto& m : others_) there.push_back(m.host);
  std::ranges::sort(there);  // sorted, so that all processes report the same text
  const std::string why =
      wrote.empty() ? "the host that wrote it is not known: start the job with all hosts of the run that saved it"
      : std::ranges::binary_search(there, wrote)
          ? fmt::format("host {} wrote it and no longer has it: resume from another checkpoint", wrote)
          : fmt::format("host {} wrote it: start the job with that host", wrote);
  return {error_kind::bad_input,
          fmt::format("'{}' is on none of the disks of {} (checkpoint.use_node_local_storage): {}", path.string(),
                      fmt::join(there, ", "), why)};
}

core::result<void> node_local_files::check_others(const fs::path& root) const {
  std::set<std::string> known;
  uint64_t newest = 0;
  auto places = places_aside(root);
  places.push_back(root);
  for (const auto& place : places) {
    const auto ids = ids_in(place);
    if (ids) known.insert(ids->begin(), ids->end());
  }
  if (const auto mine = checkpoint::read_latest(real_files(), root); mine && *mine)
    if (const auto manifest = checkpoint::read_manifest(real_files(), root / (*mine)->folder))
      newest = manifest->content.run.step;
  for (const auto& m : others_) {
    // Calls the other machine the leading one here, so that manifests and `latest` are read from its disk.
    node_local_files there(host_, {{m.place, m.host, true}}, elsewhere_);
    const auto latest = checkpoint::read_latest(there, root);
    if (!latest && latest.error().kind == error_kind::peer_lost) return core::fail(latest.error());
    if (!latest || !*latest) continue;
    const auto manifest = checkpoint::read_manifest(there, root / (*latest)->folder);
    if (!manifest && manifest.error().kind == error_kind::peer_lost) return core::fail(manifest.error());
    if (!manifest || known.contains(storage::to_hex(manifest->content.save_id))) continue;
    if (const uint64_t step = manifest->content.run.step; step > newest)
      return core::fail(
          error_kind::bad_input,
          fmt::format(
              "checkpoint.use_node_local_storage: host {} has a checkpoint of step {} in '{}' that the first host, "
              "{}, never had, and the next save would remove it: begin with a first host that took part in that "
              "save, or move '{}' away on host {}",
              m.host, step, root.string(), host_, root.string(), m.host));
  }
  return {};
}

}  // namespace troupe::actors
