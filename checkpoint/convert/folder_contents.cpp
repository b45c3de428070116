#include "checkpoint/convert/folder_contents.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/commit/open.hpp"
#include "checkpoint/convert/checkpoint_names.hpp"
#include "checkpoint/convert/formats.hpp"
#include "checkpoint/convert/no_checkpoint.hpp"
#include "core/lfs_pointer.hpp"
#include "core/source_file.hpp"
#include "core/system/dangling_link.hpp"
#include "core/text.hpp"
#include "formats/names/layer_names.hpp"
#include "formats/safetensors/weights_index.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;
using core::refused;

/// Maximum depth of nested folders that are examined.
constexpr int max_folder_depth = 4;

constexpr std::array<std::string_view, 2> inner_names{"checkpoints", "checkpoint"};
constexpr std::string_view trainer_state_name = "trainer_state.json";
/// Maximum number of checkpoint names that one message lists.
constexpr size_t max_names_shown = 8;
/// Number of bytes at the start of a file that the formats compare.
constexpr size_t file_start_bytes = 10;

/// Returns the first format that is certain by `compare(format)`, or else the first that is possible; null if there is
/// none.
template <class Compare>
core::result<const formats::source_format*> likest_format(const Compare& compare) {
  const formats::source_format* likest = nullptr;
  for (const auto* format : all_formats) {
    TROUPE_ASSIGN(const formats::likeness found, compare(*format));
    if (found == formats::likeness::certain) return format;
    if (found == formats::likeness::possible && likest == nullptr) likest = format;
  }
  return likest;
}

/// Returns the format of a folder that contains exactly one checkpoint; null if no format recognises the folder.
/// Returns an error (io) if the folder cannot be listed.
core::result<const formats::source_format*> format_of_folder(const fs::path& folder) {
  return likest_format([&](const formats::source_format& f) { return f.in_folder(folder); });
}

/// Returns the format of a file or of the shards that an index lists. Refused: a file that no format recognises, a Git
/// LFS pointer, an index that read_weights_index() refuses.
core::result<const formats::source_format*> format_of_file(const fs::path& file) {
  const auto of_start = [&](const formats::file_start& start) {
    return likest_format(
        [&](const formats::source_format& f) -> core::result<formats::likeness> { return f.in_file(start); });
  };
  if (formats::is_index_name(file)) {
    TROUPE_ASSIGN(const auto weights, formats::read_weights_index(file));
    return of_start({.first_shard = weights.front().second});
  }
  TROUPE_ASSIGN(const auto opened, core::source_file::open(file));
  TROUPE_TRY(core::refuse_lfs_pointer(opened));
  std::array<std::byte, file_start_bytes> start{};
  const auto got = std::span(start).first(static_cast<size_t>(std::min<uint64_t>(start.size(), opened.size())));
  TROUPE_TRY(opened.read(0, got));
  TROUPE_ASSIGN(const auto* format, of_start({.bytes = got}));
  return format != nullptr ? core::result<const formats::source_format*>(format) : fail(no_file_of_weights(file));
}

/// True if a folder contains a checkpoint of Troupe, even a damaged one.
bool has_ours(const fs::path& root) {
  const auto all = storage::real_files().list(root);
  return all && std::any_of(all->begin(), all->end(), [&](const storage::folder_entry& e) {
           return e.kind == storage::entry_kind::folder && (step_of(e.name.substr(0, e.name.find('.'))) ||
                                                            storage::is_there(root / e.name / manifest_file_name));
         });
}

/// True if `latest` was written by Troupe: it holds the digest of the manifest of the checkpoint that it names.
bool latest_is_ours(const fs::path& root) {
  const auto latest = read_latest(storage::real_files(), root);
  return latest && *latest && (*latest)->seal;
}

/// Returns the end of a message that lists the checkpoints of a folder and the options that select one; empty if there
/// are none.
std::string offered(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  return fmt::format(
      ": it holds {}: select one with --tag NAME, or the newest complete one with --fallback-to-previous",
      formats::first_names(names, max_names_shown));
}

folder_contents only(found_checkpoint c) {
  folder_contents out;
  out.checkpoints.push_back(std::move(c));
  return out;
}

core::result<folder_contents> contents_of_folder(const fs::path& path, int depth);

/// Finds the checkpoint in the folder `tag`; errors begin with `who`, which names the origin of the tag.
core::result<folder_contents> contents_of_tag(const fs::path& root, const std::string& tag, const std::string& who,
                                              int depth) {
  const bool is_name = is_plain_name(tag);
  if (is_name && storage::is_folder(root / tag)) return contents_of_folder(root / tag, depth + 1);
  const auto others = offered(tags_in(root));
  if (!is_name)
    return refused(fmt::format("{} '{}', which is not the name of a folder{}", who, core::shown(tag), others));
  const auto link = core::dangling_link_in(root / tag);
  return refused(fmt::format("{} '{}', but there is no such folder in '{}'{}{}", who, core::shown(tag), root.string(),
                             link ? fmt::format(" ({})", *link) : "", others));
}

/// Finds the checkpoint `name`, which the file `pointer` names and which is therefore the newest, and after it the
/// older checkpoints in `root`: those with a lower number at the end of their name or without a number, or all others
/// if `name` has no number. If the named checkpoint cannot be found, the first entry of the result has the error as its
/// `problem`.
core::result<folder_contents> contents_of_named(const fs::path& root, const fs::path& pointer, const std::string& name,
                                                int depth) {
  auto named = contents_of_tag(root, name, fmt::format("'{}' names", pointer.string()), depth);
  folder_contents out = named ? only({root / name, name}) : only({root / name, "", {}, named.error()});
  const auto newest = number_at_end(name);
  for (const auto& tag : tags_in(root))
    if (const auto number = number_at_end(tag); tag != name && (!newest || !number || *number < *newest))
      out.checkpoints.push_back({root / tag, tag});
  if (named && named->checkpoints.size() == 1) out.checkpoints.front() = named->checkpoints.front();
  if (out.checkpoints.front().name.empty() && named) out.checkpoints.front().name = name;
  if (!named && out.checkpoints.size() == 1) return fail(named.error());
  return out;
}

/// Returns the numbered checkpoint folders in `root`, the newest first. Their names begin with the first of
/// numbered_stems under which a checkpoint exists; folders `checkpoint-N` and `checkpoint_N` are returned even if none
/// of them holds a checkpoint.
std::vector<found_checkpoint> numbered_checkpoints(const fs::path& root, int depth) {
  for (const auto stem : numbered_stems) {
    const auto all = numbered_in(root, stem);
    const bool is_trainers = stem.starts_with("checkpoint");
    const auto is_one = [&](const std::string& name) { return contents_of_folder(root / name, depth + 1).has_value(); };
    if (all.empty() || (!is_trainers && std::ranges::none_of(all, is_one))) continue;
    std::vector<found_checkpoint> out;
    for (const auto& name : all) out.push_back({root / name, name});
    return out;
  }
  return {};
}

/// True if the chosen checkpoint of a folder has an optimizer's states, judged by file names.
bool has_states(const core::result<folder_contents>& inside) {
  if (!inside || inside->checkpoints.front().problem) return false;
  const auto& first = inside->checkpoints.front();
  return first.format != nullptr && first.format->has_states(first.path);
}

/// Returns why the newest checkpoint, all.front(), is not complete: it cannot be found, or it lacks a kind of file that
/// the checkpoint before it has. Returns nothing if it is complete.
std::optional<core::error> cut_short(const std::vector<found_checkpoint>& all, int depth) {
  const auto& newest = all.front();
  const auto inside = contents_of_folder(newest.path, depth + 1);
  if (!inside) return inside.error();
  if (inside->checkpoints.front().problem) return inside->checkpoints.front().problem;
  if (all.size() < 2) return std::nullopt;
  const auto& before = all[1];
  std::vector<std::string> missing;
  if (storage::is_there(before.path / trainer_state_name) && !storage::is_there(newest.path / trainer_state_name))
    missing.emplace_back(trainer_state_name);
  if (!has_states(inside) && has_states(contents_of_folder(before.path, depth + 1)))
    missing.emplace_back("optimizer's states");
  if (missing.empty()) return std::nullopt;
  return core::error{error_kind::bad_input,
                     fmt::format("'{}' has no {}, which {} has: it was not saved completely", newest.path.string(),
                                 fmt::join(missing, " and no "), before.name)};
}

/// Finds the checkpoints below a folder that is no checkpoint itself or only has weights; nothing if there are none.
std::optional<folder_contents> deeper_in(const fs::path& path, int depth) {
  folder_contents out;
  out.checkpoints = numbered_checkpoints(path, depth);
  if (!out.checkpoints.empty()) {
    out.checkpoints.front().problem = cut_short(out.checkpoints, depth);
    if (out.checkpoints.size() > 1) {
      std::vector<std::string> names;
      for (const auto& c : out.checkpoints) names.push_back(c.name);
      out.notes.push_back(fmt::format("'{}' holds {} checkpoints, {}: the newest is used", path.string(), names.size(),
                                      formats::first_names(names, max_names_shown)));
    }
    return out;
  }
  const auto tags = tags_in(path);
  if (tags.size() == 1) {
    out.checkpoints.push_back({path / tags.front(), tags.front()});
    out.notes.push_back(fmt::format("'{}' has no '{}': the only checkpoint there, {}, is used", path.string(),
                                    latest_file_name, tags.front()));
    return out;
  }
  if (tags.size() > 1) {
    out.checkpoints.push_back(
        {path,
         "",
         {},
         core::error{error_kind::bad_input, fmt::format("'{}' has no '{}' that names the newest checkpoint{}",
                                                        path.string(), latest_file_name, offered(tags))}});
    for (const auto& tag : tags) out.checkpoints.push_back({path / tag, tag});
    return out;
  }
  for (const auto name : inner_names) {
    if (!storage::is_folder(path / name)) continue;
    auto inside = contents_of_folder(path / name, depth + 1);
    if (!inside) continue;
    for (auto& c : inside->checkpoints)
      c.name = c.name.empty() ? std::string(name) : fmt::format("{}/{}", name, c.name);
    return std::move(*inside);
  }
  return std::nullopt;
}

/// True if one of the three newest checkpoints has an optimizer's states.
bool any_has_states(const folder_contents& c, int depth) {
  constexpr size_t most = 3;
  const auto newest = std::span(c.checkpoints).first(std::min(most, c.checkpoints.size()));
  return std::ranges::any_of(newest, [&](const found_checkpoint& one) {
    return !one.name.empty() && has_states(contents_of_folder(one.path, depth + 1));
  });
}

folder_contents ours_at(const fs::path& path) { return only({path, "", &troupe_format}); }

/// Finds the checkpoints in `path`, a folder with a file that names the newest of them.
core::result<folder_contents> contents_of_latest(const fs::path& path, const newest_name& newest, int depth) {
  const auto& name = newest.name;
  if (newest.writer == latest_writer::megatron)
    return contents_of_tag(path, name, fmt::format("'{}' names", newest.file.string()), depth);
  const bool may_be_ours = newest.writer == latest_writer::any;
  // The named folder may be missing, because a checkpoint of Troupe may still have its working name, or it may be
  // damaged: open_checkpoint() finds or skips it.
  if (may_be_ours && (step_of(name) || latest_is_ours(path)) &&
      (!storage::is_folder(path / name) || storage::is_there(path / name / manifest_file_name)))
    return ours_at(path);
  auto named = contents_of_named(path, newest.file, name, depth);
  // The folder may hold checkpoints of Troupe, although the one that `latest` names has lost its manifest.
  if (may_be_ours && (!named || named->checkpoints.front().problem) && has_ours(path)) return ours_at(path);
  return named;
}

core::result<folder_contents> contents_of_folder(const fs::path& path, int depth) {
  if (depth > max_folder_depth)
    return fail(error_kind::limit,
                fmt::format("'{}': its folders are nested too deeply: name the folder of the checkpoint itself",
                            path.string()));
  if (storage::is_there(path / manifest_file_name)) return ours_at(path);
  TROUPE_ASSIGN(const auto newest, newest_named_in(path));
  if (newest) return contents_of_latest(path, *newest, depth);
  const auto found = format_of_folder(path);
  const auto* own = found ? *found : nullptr;
  const auto itself = [&] { return only({path, "", own}); };
  if (own != nullptr && own->has_states(path)) return itself();
  if (own == nullptr && has_ours(path)) return ours_at(path);  // a folder of Troupe's checkpoints without `latest`
  auto deeper = deeper_in(path, depth);
  if (own == nullptr) {
    if (deeper) return std::move(*deeper);
    for (const auto name : inner_names)
      if (const auto link = core::dangling_link_in(path / name)) return refused(*link);
    return fail(found ? no_checkpoint(path) : found.error());
  }
  if (!deeper || !any_has_states(*deeper, depth)) return itself();
  deeper->weights = itself().checkpoints.front();
  return std::move(*deeper);
}

}  // namespace

core::result<folder_contents> look_into(const fs::path& path, const std::optional<std::string>& tag) {
  if (!storage::is_there(path)) {
    if (const auto link = core::dangling_link_in(path)) return refused(*link);
    return refused(fmt::format("'{}' does not exist", path.string()));
  }
  if (!storage::is_folder(path)) {
    if (tag)
      return refused(fmt::format("'{}' is a file, not a folder with the tag '{}'", path.string(), core::shown(*tag)));
    TROUPE_ASSIGN(const auto* format, format_of_file(path));
    return only({path, "", format});
  }
  if (!tag) return contents_of_folder(path, 0);
  const auto inner = path / inner_names.front();
  const bool is_inside = is_plain_name(*tag) && !storage::is_folder(path / *tag) && storage::is_folder(inner / *tag);
  return contents_of_tag(is_inside ? inner : path, *tag, "the requested tag is", 0);
}

core::result<found_checkpoint> with_format(found_checkpoint c) {
  for (int steps = 0; !c.problem && c.format == nullptr; ++steps) {
    if (steps == max_folder_depth) return refused(fmt::format("'{}' is not a checkpoint", c.path.string()));
    TROUPE_ASSIGN(auto inside, look_into(c.path));
    c = std::move(inside.checkpoints.front());
  }
  if (c.problem) return fail(*c.problem);
  return c;
}

core::result<const formats::source_format*> recognise(const fs::path& path) {
  TROUPE_ASSIGN(auto contents, look_into(path));
  TROUPE_ASSIGN(const auto chosen, with_format(std::move(contents.checkpoints.front())));
  return chosen.format;
}

fs::path checkpoints_below(const fs::path& path) {
  const auto inner = path / inner_names.front();
  if (!storage::is_folder(path) || !storage::is_folder(inner)) return path;
  const auto contents = look_into(path);
  if (!contents) return inner;
  const auto& first = contents->checkpoints.front();
  return first.path.string().starts_with((inner / "").string()) || first.path == inner ? inner : path;
}

}  // namespace troupe::checkpoint
