// Recognises files of a data folder that are not meant as its data: cards, backups, checksums, logs, and a second form
// of the same file. Owns these rules of names; leaves splits to repository.cpp.
#include "data/formats/folder_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/text.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

bool is_one_of(const auto& names, std::string_view name) { return std::ranges::find(names, name) != std::end(names); }

/// True for the names that programs give to backups and to files that they have not finished.
bool is_unfinished_copy(const fs::path& p) {
  constexpr std::string_view endings[] = {".bak", ".tmp", ".part", ".crdownload", ".incomplete"};
  const std::string name = p.filename().string();
  return name.ends_with('~') || is_one_of(endings, core::lowered(p.extension().string()));
}

/// True for file extensions, such as `.old` or `.1`, that mark an older copy of the file whose name has no such
/// extension.
bool marks_older_copy(std::string_view ending) {
  if (ending == ".old" || ending == ".orig") return true;
  return ending.size() > 1 && std::ranges::all_of(ending.substr(1), [](char c) { return c >= '0' && c <= '9'; });
}

bool holds_checksums(const fs::path& p) {
  constexpr std::string_view names[] = {"md5sum",    "md5sums",    "sha1sum", "sha1sums", "sha256sum", "sha256sums",
                                        "sha512sum", "sha512sums", "b2sums",  "checksum", "checksums"};
  constexpr std::string_view endings[] = {".md5",    ".sha1",    ".sha256",    ".sha512",
                                          ".md5sum", ".sha1sum", ".sha256sum", ".sha512sum"};
  const std::string name = core::lowered(p.filename().string());
  return is_one_of(names, name.substr(0, name.find('.'))) || is_one_of(endings, core::lowered(p.extension().string()));
}

bool has_underscore(const fs::path& relative) {
  return std::ranges::any_of(relative, [](const fs::path& part) { return part.string().starts_with('_'); });
}

/// Returns the path without the ending of a compression: `a.tar` for `a.tgz`, `a.jsonl` for `a.jsonl.zst`.
fs::path expanded_name(const fs::path& p) {
  if (!is_packed(p)) return p;
  fs::path out = p;
  return core::lowered(p.extension().string()) == ".tgz" ? out.replace_extension(".tar") : out.replace_extension();
}

}  // namespace

bool is_card_or_licence(const fs::path& p) {
  constexpr std::string_view names[] = {"readme", "license", "licence", "copying", "notice", "citation", "changelog"};
  const std::string name = core::lowered(p.filename().string());
  const auto stem = name.substr(0, name.find('.'));
  const auto first = stem.substr(0, stem.find_first_of("-_"));
  return is_one_of(names, stem) || first == "license" || first == "readme";
}

bool describes_data(const fs::path& p) {
  constexpr std::string_view names[] = {"dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json",
                                        "croissant.json"};
  return is_one_of(names, p.filename().string());
}

void leave_out_side_files(const fs::path& folder, source_listing& listing) {
  const auto leave_out = [&](const auto& reason_of) {
    std::erase_if(listing.files, [&](const fs::path& p) {
      const std::string why = reason_of(p);
      if (!why.empty()) listing.left_out.push_back({p, why});
      return !why.empty();
    });
  };
  const std::vector<fs::path> all = listing.files;  // files sorted by path
  leave_out([&](const fs::path& p) -> std::string {
    if (is_unfinished_copy(p)) return "backup or unfinished copy";
    if (!marks_older_copy(core::lowered(p.extension().string()))) return "";
    const fs::path original = fs::path(p).replace_extension();
    return std::ranges::binary_search(all, original) ? "older copy of " + original.filename().string() : "";
  });
  const auto holds_rows = [](const fs::path& p) { return kind_of(p) != source_kind::text && !describes_data(p); };
  if (std::ranges::none_of(listing.files, holds_rows)) return;
  const auto is_plain = [&](const fs::path& p) {
    return holds_rows(p) && !has_underscore(p.lexically_relative(folder));
  };
  const bool some_plain = std::ranges::any_of(listing.files, is_plain);
  leave_out([&](const fs::path& p) -> std::string {
    if (some_plain && has_underscore(p.lexically_relative(folder))) return "a name with an underscore, next to rows";
    if (kind_of(p) != source_kind::text) return "";
    if (holds_checksums(p)) return "checksums";
    return core::lowered(p.extension().string()) == ".log" ? "log" : "";
  });
}

core::result<void> refuse_second_forms(const std::vector<fs::path>& files) {
  std::map<fs::path, const fs::path*> seen;
  for (const auto& p : files) {
    const auto [first, is_new] = seen.try_emplace(expanded_name(p), &p);
    if (!is_new)
      return core::fail(core::error_kind::bad_input,
                        fmt::format("'{}' and '{}' look like one file in two forms, and both would be trained on: "
                                    "remove or rename one of them",
                                    first->second->string(), p.string()));
  }
  return {};
}

void name_missing_shards(source_listing& listing) {
  struct shard_group {
    shard_name one;
    fs::path path;  ///< path of one existing shard of the group
    std::set<uint64_t> numbers{};
  };
  std::map<std::pair<std::string, uint64_t>, shard_group> groups;
  for (const auto& p : listing.files) {
    const auto shard = shard_in(p.filename().string());
    if (!shard) continue;
    const std::string key = (p.parent_path() / shard->name).string() + '/' + ending_of(p);
    groups.try_emplace({key, shard->total}, shard_group{*shard, p}).first->second.numbers.insert(shard->number);
  }
  std::vector<left_out_file> missing;
  for (const auto& [key, group] : groups) {
    const auto& [one, path, numbers] = group;
    if (numbers.size() >= one.total) continue;
    uint64_t first = numbers.contains(one.total) ? 1 : 0;  // some writers number the shards from 1, not from 0
    while (numbers.contains(first)) ++first;
    std::string name = path.filename().string();
    name.replace(one.digits_at, one.digits, fmt::format("{:0{}}", first, one.digits));
    missing.push_back({path.parent_path() / name,
                       fmt::format("missing: {} of {} shards of {} are there", numbers.size(), one.total, one.name)});
  }
  listing.left_out.insert(listing.left_out.begin(), missing.begin(), missing.end());
}

}  // namespace troupe::data
