// Implements the retention policy as a pure function, steps_to_remove(), and applies it to a folder of checkpoints.
#include "checkpoint/commit/retention.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/commit/names.hpp"
#include "checkpoint/commit/reading_mark.hpp"

namespace troupe::checkpoint {
namespace {

/// Returns the commit time of a checkpoint; 0 if the manifest has none or cannot be read, which makes it older than all
/// others.
uint64_t commit_time_of(storage::file_system& files, const std::filesystem::path& folder) {
  const auto known = read_manifest(files, folder);
  return known ? known->content.committed_unix_ns : 0;
}

}  // namespace

core::result<std::optional<std::string>> strange_in(storage::file_system& files, const std::filesystem::path& folder) {
  const auto known = read_manifest(files, folder);
  if (!known) return known.error().text;
  TROUPE_ASSIGN(const auto inside, files.list(folder));
  const auto& shards = known->content.files;
  for (const auto& e : inside) {
    const bool ours = e.name == manifest_file_name ||
                      std::any_of(shards.begin(), shards.end(), [&](const auto& f) { return f.name == e.name; });
    if (e.kind != storage::entry_kind::file || !ours)
      return fmt::format("'{}' in it does not belong to the checkpoint", e.name);
  }
  return std::nullopt;
}

std::vector<uint64_t> steps_to_remove(std::span<const committed_step> steps, std::optional<uint64_t> latest,
                                      const retention_policy& policy) {
  if (policy.keep_last == 0) return {};
  std::vector<committed_step> by_age(steps.begin(), steps.end());
  std::sort(by_age.begin(), by_age.end(), [](const committed_step& a, const committed_step& b) {
    return a.committed_unix_ns != b.committed_unix_ns ? a.committed_unix_ns < b.committed_unix_ns : a.step < b.step;
  });
  by_age.resize(by_age.size() - std::min<size_t>(by_age.size(), policy.keep_last));
  std::vector<uint64_t> out;
  for (const auto& s : by_age) out.push_back(s.step);
  std::erase_if(
      out, [&](uint64_t step) { return step == latest || (policy.keep_every != 0 && step % policy.keep_every == 0); });
  return out;
}

core::result<retention_report> apply_retention(storage::file_system& files, const std::filesystem::path& root,
                                               const retention_policy& policy) {
  retention_report out;
  TROUPE_ASSIGN(const auto latest, read_latest(files, root));
  if (!latest) return out;
  TROUPE_ASSIGN(const auto all, files.list(root));
  std::vector<committed_step> steps;
  for (const auto& e : all)
    if (const auto step = step_of(e.name); step && e.kind == storage::entry_kind::folder) steps.push_back({*step, 0});
  if (policy.keep_last == 0 || steps.size() <= policy.keep_last) return out;
  for (auto& s : steps) s.committed_unix_ns = commit_time_of(files, root / step_folder_name(s.step));
  for (const uint64_t step : steps_to_remove(steps, step_of(latest->folder), policy)) {
    const std::string name = step_folder_name(step);
    TROUPE_ASSIGN(const auto strange, strange_in(files, root / name));
    if (strange) {
      out.spared.push_back(fmt::format("{}: {}", name, *strange));
      continue;
    }
    const auto claim = &files == &storage::real_files() ? claim_unread(root / name) : unread_claim{};
    if (claim.is_read) {
      out.spared.push_back(fmt::format("{}: another process is reading it", name));
      continue;
    }
    TROUPE_TRY(remove_checkpoint(files, root, name));
    out.removed.push_back(name);
  }
  return out;
}

}  // namespace troupe::checkpoint
