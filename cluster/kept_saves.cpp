#include "cluster/kept_saves.hpp"

#include <algorithm>

namespace troupe::cluster {
namespace {

/// True if `path` is directly in `folder`; false if it is in a folder within it.
bool lies_in(std::string_view path, std::string_view folder) {
  const auto end = path.rfind('/');
  return end != std::string_view::npos && path.substr(0, end) == folder;
}

}  // namespace

void kept_saves::forget(std::string_view folder) {
  std::erase_if(files_, [&](const auto& f) { return lies_in(f.first, folder); });
}

void kept_saves::add(const std::string& path, uint64_t bytes, std::vector<shared_descriptor> with, uint32_t machine) {
  // A copy of a file may be reported, under the folder in which it was written, after its save was marked complete: the
  // file then belongs to the save's final folder.
  const auto moved = std::ranges::find_if(written_, [&](const auto& w) { return lies_in(path, w.first); });
  const std::string at = moved == written_.end() ? path : moved->second + path.substr(moved->first.size());
  file& f = files_[at];
  if (f.bytes != bytes) f = {};
  f.bytes = bytes;
  if (!with.empty()) f.with = std::move(with);
  if (std::ranges::find(f.machines, machine) == f.machines.end()) f.machines.push_back(machine);
  const std::string folder = at.substr(0, at.rfind('/'));
  if (std::ranges::find(saves_, folder) != saves_.end()) return;
  if (std::ranges::find(begun_, folder, &begun::folder) != begun_.end()) return;
  begun_.push_back({folder, num_whole_});
  if (begun_.size() <= begun_saves_max) return;
  forget(begun_.front().folder);
  begun_.erase(begun_.begin());
}

// Drops all files that `folder` has already: they are of an earlier save of the same step, by a term with other ranks
// and therefore other files. Reports of those files that come later no longer count for `folder`.
void kept_saves::whole(const std::string& folder, const std::string& written) {
  forget(folder);
  std::erase_if(written_, [&](const auto& w) { return w.second == folder; });
  std::map<std::string, file> moved;
  for (auto at = files_.begin(); at != files_.end();) {
    if (!lies_in(at->first, written)) {
      ++at;
      continue;
    }
    moved[folder + at->first.substr(written.size())] = std::move(at->second);
    at = files_.erase(at);
  }
  ++num_whole_;
  std::erase_if(begun_, [&](const begun& b) {
    const bool is_over = b.folder == written || b.folder == folder || b.begun_at + 1 < num_whole_;
    if (is_over) forget(b.folder);
    return is_over;
  });
  files_.merge(moved);
  std::erase(saves_, folder);
  saves_.push_back(folder);
  if (saves_.size() > kept_saves_max) {
    forget(saves_.front());
    saves_.erase(saves_.begin());
  }
  std::erase_if(written_, [&](const auto& w) { return std::ranges::find(saves_, w.second) == saves_.end(); });
  written_.emplace_back(written, folder);
}

void kept_saves::lose(uint32_t machine) {
  for (auto& [path, f] : files_) std::erase(f.machines, machine);
}

std::string kept_saves::newest(const std::vector<uint32_t>& machines) const {
  for (auto save = saves_.rbegin(); save != saves_.rend(); ++save)
    if (lost_file(*save, machines).empty()) return *save;
  return {};
}

std::string kept_saves::lost_file(std::string_view folder, const std::vector<uint32_t>& machines) const {
  const auto is_on = [&](uint32_t m) { return std::ranges::find(machines, m) != machines.end(); };
  for (const auto& [path, f] : of(folder))
    if (std::ranges::none_of(f->machines, is_on)) return path;
  return {};
}

std::map<std::string, const kept_saves::file*> kept_saves::of(std::string_view folder) const {
  std::map<std::string, const file*> out;
  for (const auto& [path, f] : files_)
    if (lies_in(path, folder)) out[path] = &f;
  return out;
}

}  // namespace troupe::cluster
