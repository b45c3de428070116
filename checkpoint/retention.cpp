// The rule as a pure function, then its execution.
#include "checkpoint/retention.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/commit.hpp"

namespace troupe::checkpoint {
namespace {

using core::fail;

/// Why a folder is no checkpoint of ours from its first to its last file; nothing where it is one.
core::result<std::optional<std::string>> strange_in(file_system& files, const std::filesystem::path& folder) {
  const auto known = read_manifest(files, folder);
  if (!known) return known.error().text;
  const auto inside = files.list(folder);
  if (!inside) return fail(inside.error());
  const auto& shards = known->content.files;
  for (const auto& e : *inside) {
    const bool ours = e.name == manifest_file_name ||
                      std::any_of(shards.begin(), shards.end(), [&](const auto& f) { return f.name == e.name; });
    if (e.kind != entry_kind::file || !ours) return fmt::format("'{}' in it is not of the checkpoint", e.name);
  }
  return std::nullopt;
}

}  // namespace

std::vector<uint64_t> steps_to_remove(std::span<const uint64_t> steps, std::optional<uint64_t> latest,
                                      const retention_policy& policy) {
  std::vector<uint64_t> out(steps.begin(), steps.end());
  if (policy.keep_last == 0) return {};
  std::sort(out.begin(), out.end());
  out.resize(out.size() - std::min<size_t>(out.size(), policy.keep_last));
  std::erase_if(
      out, [&](uint64_t step) { return step == latest || (policy.keep_every != 0 && step % policy.keep_every == 0); });
  return out;
}

core::result<retention_report> apply_retention(file_system& files, const std::filesystem::path& root,
                                               const retention_policy& policy) {
  retention_report out;
  const auto latest = read_latest(files, root);
  if (!latest) return fail(latest.error());
  if (!*latest) return out;
  const auto all = files.list(root);
  if (!all) return fail(all.error());
  std::vector<uint64_t> steps;
  for (const auto& e : *all)
    if (const auto step = step_of(e.name); step && e.kind == entry_kind::folder) steps.push_back(*step);
  for (const uint64_t step : steps_to_remove(steps, step_of((*latest)->folder), policy)) {
    const std::string name = step_folder_name(step);
    const auto strange = strange_in(files, root / name);
    if (!strange) return fail(strange.error());
    if (*strange) {
      out.spared.push_back(fmt::format("{}: {}", name, **strange));
      continue;
    }
    if (auto ok = remove_checkpoint(files, root, name); !ok) return fail(ok.error());
    out.removed.push_back(name);
  }
  return out;
}

}  // namespace troupe::checkpoint
