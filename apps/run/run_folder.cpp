#include "apps/run/run_folder.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/commit/folder_lock.hpp"
#include "config/explain.hpp"
#include "core/system/dangling_link.hpp"
#include "plan/schedule/kept_search.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {
namespace {

// Writes small text files, calls `open`, and renames the files to their final names only if it succeeds, so that a
// refused run changes nothing. Does not sync the files, so that the first step waits for no disk.
core::result<void> write_files(const std::filesystem::path& folder,
                               const std::vector<std::pair<const char*, std::string>>& texts,
                               const std::function<core::result<void>()>& open) {
  std::vector<storage::atomic_file> files;
  for (const auto& [name, text] : texts) {
    if (text.empty()) continue;
    TROUPE_ASSIGN(auto file, storage::atomic_file::create(folder / name));
    TROUPE_TRY(file.write(text));
    files.push_back(std::move(file));
  }
  TROUPE_TRY(open());
  for (auto& file : files) TROUPE_TRY(file.commit(storage::durability::in_time));
  return {};
}

}  // namespace

core::result<void> prepare_output(const config::loaded& c, const actors::session& s,
                                  const std::function<core::result<void>()>& claim,
                                  const std::function<core::result<void>()>& open) {
  const std::filesystem::path folder = std::filesystem::absolute(c.config.output).lexically_normal();
  std::vector<std::filesystem::path> made;  // folders that this function creates, the innermost first
  const std::vector<std::pair<const char*, std::string>> texts = {
      {"config.yaml", config::effective_yaml(c)},
      {"tiers.yaml", s.chosen_tiers()},
      {plan::schedule_file_name.data(), s.found_schedule()},
      {plan::search_file_name.data(), s.found_schedule_note()}};
  std::error_code e;
  for (std::filesystem::path p = folder; !p.empty() && !std::filesystem::exists(p, e) && p != p.parent_path();
       p = p.parent_path())
    made.push_back(p);
  std::filesystem::create_directories(folder, e);
  core::result<void> did = {};
  if (e)
    did = core::fail(core::error_kind::io, fmt::format("output: cannot make the folder {}: {}", folder.string(),
                                                       core::dangling_link_in(folder).value_or(e.message())));
  else if (did = claim(); did)
    did = write_files(folder, texts, open);
  for (const auto& [name, text] : texts)
    if (!did && !made.empty()) std::filesystem::remove(folder / name, e);
  if (!did && !made.empty()) std::filesystem::remove(folder / checkpoint::lock_file_name, e);
  if (!did)
    for (const auto& p : made) std::filesystem::remove(p, e);
  return did;
}

}  // namespace troupe::apps
