#include "cluster/kept_saves.hpp"

#include <algorithm>
#include <utility>

namespace troupe::cluster {
namespace {

bool lies_in(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

}  // namespace

void kept_saves::add(const std::string& path, uint64_t bytes, std::vector<shared_descriptor> with, uint32_t machine) {
  // A copy may be told of after the save that it belongs to.
  const auto moved = std::ranges::find_if(written_, [&](const auto& w) { return lies_in(path, w.first); });
  file& f = files_[moved == written_.end() ? path : moved->second + path.substr(moved->first.size())];
  if (f.bytes != bytes) f = {};
  f.bytes = bytes;
  f.told_at = num_whole_;
  if (!with.empty()) f.with = std::move(with);
  if (std::ranges::find(f.machines, machine) == f.machines.end()) f.machines.push_back(machine);
}

// A step may be saved once more, by a term with other ranks and so with other files: those of before go, and with them
// whatever is still told of them.
void kept_saves::whole(const std::string& folder, const std::string& written) {
  std::erase_if(files_, [&](const auto& f) { return lies_in(f.first, folder); });
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
  files_.merge(moved);
  std::erase(saves_, folder);
  saves_.push_back(folder);
  std::erase_if(written_, [&](const auto& w) { return std::ranges::find(saves_, w.second) == saves_.end(); });
  written_.emplace_back(written, folder);
  if (saves_.size() > kept_saves_max) saves_.erase(saves_.begin());
  ++num_whole_;
  std::erase_if(files_, [&](const auto& f) {
    const bool is_kept = std::ranges::any_of(saves_, [&](const auto& s) { return lies_in(f.first, s); });
    return !is_kept && f.second.told_at + 1 < num_whole_;
  });
}

void kept_saves::lose(uint32_t machine) {
  for (auto& [path, f] : files_) std::erase(f.machines, machine);
}

std::string kept_saves::newest(const std::vector<uint32_t>& machines) const {
  const auto is_on = [&](uint32_t m) { return std::ranges::find(machines, m) != machines.end(); };
  for (auto save = saves_.rbegin(); save != saves_.rend(); ++save) {
    const auto all = of(*save);
    if (std::ranges::all_of(all, [&](const auto& x) { return std::ranges::any_of(x.second->machines, is_on); }))
      return *save;
  }
  return {};
}

std::map<std::string, const kept_saves::file*> kept_saves::of(std::string_view folder) const {
  std::map<std::string, const file*> out;
  for (const auto& [path, f] : files_)
    if (lies_in(path, folder)) out[path] = &f;
  return out;
}

}  // namespace troupe::cluster
