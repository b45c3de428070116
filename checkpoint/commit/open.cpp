// Reads `latest`, and opens the checkpoint that it names or an older one.
#include "checkpoint/commit/open.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/commit/names.hpp"
#include "checkpoint/native/native_source.hpp"
#include "storage/files/working_folder.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Opens the checkpoint that `latest` names; its manifest must have the digest in `latest`.
core::result<checkpoint_folder> open_named(storage::file_system& files, const fs::path& root,
                                           const latest_name& latest) {
  const auto& [name, seal] = latest;
  auto named = open_folder(files, root / name);
  if (named && (!seal || named->seal == *seal)) return named;
  // An interrupted save of the same step may have renamed the checkpoint to its `.replaced-` name.
  if (seal) {
    TROUPE_ASSIGN(const auto all, files.list(root));
    for (const auto& e : all)
      if (e.kind == storage::entry_kind::folder && storage::is_beside(e.name, name, replaced_mark))
        if (auto aside = open_folder(files, root / e.name); aside && aside->seal == *seal) return aside;
  }
  const auto where = fmt::format("'{}' names '{}'", (root / latest_file_name).string(), name);
  if (!named) return fail(named.error().in(where));
  return fail(error_kind::mismatch,
              fmt::format("{} with the manifest digest {}, but the manifest in that folder has {}", where,
                          storage::to_hex(*seal), storage::to_hex(named->seal)));
}

core::result<checkpoint_folder> open_latest(storage::file_system& files, const fs::path& root,
                                            const core::result<std::optional<latest_name>>& latest) {
  if (!latest) return fail(latest.error());
  if (!*latest)
    return fail(error_kind::bad_input, fmt::format("'{}' is not a checkpoint: it contains neither '{}' nor '{}'",
                                                   root.string(), manifest_file_name, latest_file_name));
  return open_named(files, root, **latest);
}

core::result<void> check_contents(storage::file_system& files, const checkpoint_folder& c) {
  TROUPE_ASSIGN(const auto report, verify_checkpoint(files, c.folder));
  if (report.damages == 0) return {};
  const std::string more = report.damages > 1 ? fmt::format("; {} damages in all", report.damages) : "";
  return fail(error_kind::bad_input, report.listed.front().text + more);
}

/// True if the manifest of the named folder has another digest than `latest` holds: the folder may be good and only
/// `latest` wrong.
bool has_another_seal(storage::file_system& files, const fs::path& root, const latest_name& latest) {
  const auto now = read_manifest(files, root / latest.folder);
  return now && latest.seal && now->seal != *latest.seal;
}

struct candidate {
  std::optional<uint64_t> committed_unix_ns;  // commit time; nothing if the manifest cannot be read
  uint64_t step = 0;
  std::string name;
};

/// Reads step and commit time of `folder`, whose checkpoint is called `name`; nothing if it is not a checkpoint.
std::optional<candidate> candidate_in(storage::file_system& files, const fs::path& root, const std::string& folder,
                                      std::string_view name) {
  const auto step = step_of(name);
  if (!step && !is_tag(name)) return std::nullopt;
  const auto known = read_manifest(files, root / folder);
  if (known) return candidate{known->content.committed_unix_ns, step.value_or(known->content.run.step), folder};
  return step ? std::optional(candidate{std::nullopt, *step, folder}) : std::nullopt;
}

/// Sorts checkpoints by commit time, newest first, because a run that returned to an older checkpoint commits lower
/// steps after higher ones. Checkpoints whose manifest cannot be read are ordered by step.
void order_by_age(std::vector<candidate>& all) {
  std::vector<std::pair<uint64_t, candidate>> aged;
  for (const auto& c : all) {
    uint64_t committed = c.committed_unix_ns.value_or(0);
    if (!c.committed_unix_ns)
      for (const auto& other : all)
        if (other.step < c.step) committed = std::max(committed, other.committed_unix_ns.value_or(0));
    aged.emplace_back(committed, c);
  }
  // Equal time and step: the folder with the plain name sorts before one with a `.replaced-` name.
  std::ranges::sort(aged, [](const auto& a, const auto& b) {
    return std::tie(b.first, b.second.step, a.second.name) < std::tie(a.first, a.second.step, b.second.name);
  });
  for (size_t i = 0; i < all.size(); ++i) all[i] = std::move(aged[i].second);
}

/// Returns the checkpoints, newest first, without those that were committed later or have a higher step than the one
/// that `latest` names: the run has returned to a step before them.
core::result<std::vector<candidate>> candidates_in(storage::file_system& files, const fs::path& root,
                                                   const core::result<std::optional<latest_name>>& latest) {
  const auto named =
      latest && *latest ? candidate_in(files, root, (*latest)->folder, (*latest)->folder) : std::optional<candidate>();
  TROUPE_ASSIGN(const auto all, files.list(root));
  std::vector<candidate> out;
  for (const auto& e : all) {
    if (e.kind != storage::entry_kind::folder) continue;
    auto c = candidate_in(files, root, e.name, stands_beside(e.name, replaced_mark).value_or(e.name));
    if (!c || (named && c->step > named->step)) continue;
    const bool later = named && named->committed_unix_ns && c->committed_unix_ns > named->committed_unix_ns;
    if (!later) out.push_back(std::move(*c));
  }
  order_by_age(out);
  return out;
}

core::result<checkpoint_folder> open_newest_good(storage::file_system& files, const fs::path& root,
                                                 const open_options& options) {
  const auto say = [&](const std::string& text) {
    if (options.say) options.say(text);
  };
  const auto good = [&](core::result<checkpoint_folder> c) {
    if (c && options.fallback_check == good_enough::verifies)
      if (auto ok = check_contents(files, *c); !ok) c = fail(ok.error());
    return c;
  };
  const auto latest = read_latest(files, root);
  auto first = good(open_latest(files, root, latest));
  if (first) return first;
  TROUPE_ASSIGN(const auto all, candidates_in(files, root, latest));
  if (all.empty()) return first;
  say(fmt::format("skipped: {}", first.error().text));
  for (const auto& c : all) {
    if (latest && *latest && c.name == (*latest)->folder && !has_another_seal(files, root, **latest)) continue;
    auto found = good(open_folder(files, root / c.name));
    if (found) {
      say(fmt::format("used instead: '{}'", found->folder.string()));
      return found;
    }
    say(fmt::format("skipped: '{}': {}", c.name, found.error().text));
  }
  return fail(first.error().kind, fmt::format("none of the {} checkpoints in '{}' is good; the newest: {}", all.size(),
                                              root.string(), first.error().text));
}

}  // namespace

core::result<std::optional<latest_name>> read_latest(storage::file_system& files, const fs::path& root) {
  const fs::path path = root / latest_file_name;
  TROUPE_ASSIGN(const auto there, files.exists(path));
  if (!there) return std::nullopt;
  TROUPE_ASSIGN(const auto text, storage::read_small_file(files, path, max_latest_bytes));
  const auto bad = [&](const char* why) {
    return fail(error_kind::bad_input, fmt::format("'{}' {}", path.string(), why));
  };
  std::string_view rest = text;
  const auto line = [&] {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const auto out = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return out.substr(0, out.find_last_not_of(" \t\r") + 1);  // editors append blanks, and Windows a carriage return
  };
  latest_name out{std::string(line()), {}};
  if (!is_checkpoint_name(out.folder))
    return bad("does not begin with the name of a checkpoint, such as step-00000120");
  if (rest.empty()) return out;
  out.seal = storage::digest_from_hex(line());
  const bool proved = step_of(out.folder) || storage::digest_from_hex(line()) == storage::digest_of(out.folder);
  if (!out.seal || !proved || !rest.empty())
    return bad(
        "must contain only a checkpoint's name, the digest of its manifest and, for a tag, the digest of the tag");
  return out;
}

core::result<checkpoint_folder> open_checkpoint(storage::file_system& files, const fs::path& path,
                                                const open_options& options) {
  TROUPE_ASSIGN(const auto itself, files.exists(path / manifest_file_name));
  if (itself) return open_folder(files, path);
  if (options.fallback_to_previous) return open_newest_good(files, path, options);
  return open_latest(files, path, read_latest(files, path));
}

}  // namespace troupe::checkpoint
