#include "checkpoint/convert/folder_contents.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/commit/open.hpp"
#include "checkpoint/convert/formats.hpp"
#include "checkpoint/convert/unread_weights.hpp"
#include "core/dangling_link.hpp"
#include "core/json_text.hpp"
#include "formats/deepspeed/files.hpp"
#include "formats/distributed/megatron_common.hpp"
#include "formats/names/wrapper_names.hpp"
#include "formats/safetensors/weights_index.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;
using core::refused;

constexpr const char* universal_latest_name = "latest_universal";
constexpr size_t max_folder_name_bytes = 255;
/// Maximum number of checkpoint names that one message lists.
constexpr size_t max_tags_shown = 8;
/// Number of names in a folder that are examined to find out whether it is the folder of a DeepSpeed tag. Limited,
/// because a folder of another kind, such as one of data, may hold many more.
constexpr size_t max_names_of_tag = 4096;
/// Maximum depth of nested folders that are examined.
constexpr int max_folder_depth = 4;

/// Beginnings of the names of numbered checkpoint folders, in front of the number: transformers' Trainer and
/// Accelerate, torchtitan, and others.
constexpr std::array<std::string_view, 7> numbered_stems{"checkpoint-", "checkpoint_", "step-", "step_",
                                                         "epoch-",      "epoch_",      "iter_"};
constexpr std::array<std::string_view, 2> inner_names{"checkpoints", "checkpoint"};
constexpr std::string_view trainer_state_name = "trainer_state.json";
constexpr uint64_t max_adapter_config_bytes = uint64_t{1} << 20;

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= max_folder_name_bytes && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

/// Returns the name in a small text file, such as DeepSpeed's `latest`.
core::result<std::string> tag_in(const fs::path& path) {
  TROUPE_ASSIGN(const auto text, storage::read_small_file(storage::real_files(), path, max_latest_bytes));
  return formats::tag_from(text);
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

/// Calls `see(entry)` for each entry of a folder until it returns true; returns true if it did.
template <class See>
bool any_in(const fs::path& folder, const See& see) {
  std::error_code ec;
  size_t seen = 0;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end && seen < storage::max_folder_entries;
       at.increment(ec), ++seen)
    if (see(*at)) return true;
  return false;
}

/// Returns the error that refuses an adapter's folder; nothing for any other folder.
std::optional<core::error> adapter_in(const fs::path& folder) {
  if (!storage::is_there(folder / formats::adapter_config_name) && formats::adapter_weights_in(folder).empty())
    return std::nullopt;
  const auto text =
      storage::read_small_file(storage::real_files(), folder / formats::adapter_config_name, max_adapter_config_bytes);
  const auto keys = text ? core::parse_json(*text) : tl::make_unexpected(core::json_problem{});
  const auto said = [&](const char* key) {
    if (!keys || !keys->is_object()) return std::string();
    const auto at = keys->find(key);
    return at != keys->end() && at->is_string() ? core::shown(at->get<std::string>()) : std::string();
  };
  const auto kind = said("peft_type"), base = said("base_model_name_or_path");
  return core::error{
      error_kind::bad_input,
      fmt::format("'{}' holds a PEFT adapter{}, not a whole model: merge it into {} first {}", folder.string(),
                  kind.empty() ? "" : fmt::format(" ({})", kind),
                  base.empty() ? "its base model" : fmt::format("its base model, '{}',", base), formats::merge_by)};
}

/// Returns "it is empty", or "it holds a.txt, plots/ and 7 more": the contents of a folder that is not a checkpoint.
std::string seen_in(const fs::path& folder) {
  constexpr size_t most_shown = 5;
  std::vector<std::string> names;
  any_in(folder, [&](const fs::directory_entry& e) {
    std::error_code ec;
    names.push_back(core::shown(e.path().filename().string()) + (e.is_directory(ec) ? "/" : ""));
    return false;
  });
  if (names.empty()) return "it is empty";
  std::ranges::sort(names);
  const size_t more = names.size() > most_shown ? names.size() - most_shown : 0;
  names.resize(names.size() - more);
  return fmt::format("it holds {}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

/// Returns why a folder of no format is not a checkpoint: what it is instead, or which files would identify one.
core::error no_checkpoint(const fs::path& path) {
  const auto refusal = [&](const std::string& why) {
    return core::error{error_kind::bad_input, fmt::format("'{}' is not a checkpoint: it {}", path.string(), why)};
  };
  for (const auto infix : {formats::safetensors_index_infix, formats::torch_index_infix})
    if (const auto all = formats::weights_indices(path, infix); all.size() > 1)
      return refusal(fmt::format("has {} index files of weights: name one of them, such as '{}'", all.size(),
                                 all.front().string()));
  if (auto adapter = adapter_in(path)) return std::move(*adapter);
  if (const auto unread = unread_weights_in(path)) return refusal("holds " + *unread);
  return refusal(fmt::format("holds {}; {}", lacking_signs(), seen_in(path)));
}

struct numbered_folder {
  std::string name;
  uint64_t number = 0;
};

/// Returns the number that follows `stem` in `name`; nothing for any other name.
std::optional<uint64_t> number_behind(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem) || name.size() == stem.size()) return std::nullopt;
  uint64_t number = 0;
  const auto [stop, error] = std::from_chars(name.data() + stem.size(), name.data() + name.size(), number);
  return error == std::errc() && stop == name.data() + name.size() ? std::optional(number) : std::nullopt;
}

/// Returns the folders in `root` whose names are `stem` and a number, the highest number first.
std::vector<numbered_folder> numbered_in(const fs::path& root, std::string_view stem) {
  std::vector<numbered_folder> out;
  any_in(root, [&](const fs::directory_entry& e) {
    auto name = e.path().filename().string();
    std::error_code ec;
    if (const auto number = number_behind(name, stem); number && e.is_directory(ec))
      out.push_back({std::move(name), *number});
    return false;
  });
  std::ranges::sort(
      out, [](const auto& a, const auto& b) { return std::pair(b.number, a.name) < std::pair(a.number, b.name); });
  return out;
}

/// Returns DeepSpeed's tags in a folder: those with numbers first, the highest number first, then those without.
std::vector<std::string> tags_in(const fs::path& root) {
  std::vector<std::pair<std::optional<uint64_t>, std::string>> found;
  any_in(root, [&](const fs::directory_entry& e) {
    std::error_code ec;
    if (!e.is_directory(ec) ||
        (!formats::holds_deepspeed_files(e.path(), max_names_of_tag) && !storage::is_folder(e.path() / "zero")))
      return false;
    const auto name = e.path().filename().string();
    const auto digits = name.find_last_not_of("0123456789");
    const auto stem = digits == name.npos ? std::string_view() : std::string_view(name).substr(0, digits + 1);
    found.emplace_back(number_behind(name, stem), name);
    return false;
  });
  std::ranges::sort(found, std::greater());
  std::vector<std::string> out;
  for (auto& [number, name] : found) out.push_back(std::move(name));
  return out;
}

std::string listed_names(const std::vector<std::string>& names) {
  std::vector<std::string> some;
  for (size_t i = 0; i < std::min(names.size(), max_tags_shown); ++i) some.push_back(core::shown(names[i]));
  const auto more = names.size() > some.size() ? fmt::format(" and {} more", names.size() - some.size()) : "";
  return fmt::format("{}{}", fmt::join(some, ", "), more);
}

/// Returns the end of a message that lists the checkpoints of a folder and the options that select one; empty if there
/// are none.
std::string offered(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  return fmt::format(
      ": it holds {}: select one with --tag NAME, or the newest complete one with --fallback-to-previous",
      listed_names(names));
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
  if (!is_plain_name(tag))
    return refused(
        fmt::format("{} '{}', which is not the name of a folder{}", who, core::shown(tag), offered(tags_in(root))));
  if (!storage::is_folder(root / tag)) {
    const auto link = core::dangling_link_in(root / tag);
    return refused(fmt::format("{} '{}', but there is no such folder in '{}'{}{}", who, core::shown(tag), root.string(),
                               link ? fmt::format(" ({})", *link) : "", offered(tags_in(root))));
  }
  return contents_of_folder(root / tag, depth + 1);
}

/// Finds the checkpoint `name`, which the file `pointer` names, and after it the older checkpoints in `root`. If the
/// named checkpoint cannot be found, the first entry of the result has the error as its `problem`.
core::result<folder_contents> contents_of_named(const fs::path& root, const fs::path& pointer, const std::string& name,
                                                int depth) {
  auto named = contents_of_tag(root, name, fmt::format("'{}' names", pointer.string()), depth);
  folder_contents out = named ? only({root / name, name}) : only({root / name, "", {}, named.error()});
  const auto number_of = [](const std::string& n) {
    const auto digits = n.find_last_not_of("0123456789");
    return digits == n.npos ? std::nullopt : number_behind(n, std::string_view(n).substr(0, digits + 1));
  };
  const auto newest = number_of(name);
  for (const auto& tag : tags_in(root))
    if (const auto number = number_of(tag); tag != name && (!newest || !number || *number < *newest))
      out.checkpoints.push_back({root / tag, tag});
  if (named && named->checkpoints.size() == 1) out.checkpoints.front() = named->checkpoints.front();
  if (out.checkpoints.front().name.empty() && named) out.checkpoints.front().name = name;
  if (!named && out.checkpoints.size() == 1) return fail(named.error());
  return out;
}

/// Returns the numbered checkpoint folders in `root`, the newest first. They all begin with one of numbered_stems: the
/// first one under which a checkpoint exists; `checkpoint-` and `checkpoint_` count even if no folder holds one.
std::vector<found_checkpoint> numbered_checkpoints(const fs::path& root, int depth) {
  for (const auto stem : numbered_stems) {
    const auto all = numbered_in(root, stem);
    const bool is_trainers = stem.starts_with("checkpoint");
    const auto is_one = [&](const numbered_folder& f) {
      return contents_of_folder(root / f.name, depth + 1).has_value();
    };
    if (all.empty() || (!is_trainers && std::ranges::none_of(all, is_one))) continue;
    std::vector<found_checkpoint> out;
    for (const auto& f : all) out.push_back({root / f.name, f.name});
    return out;
  }
  return {};
}

/// The parts of a trainer's checkpoint that a folder has, judged by file names: `run` is true if it has
/// trainer_state.json, `states` if it has an optimizer's states.
struct trainer_parts {
  bool run = false, states = false;
};
trainer_parts parts_in(const fs::path& folder, int depth) {
  trainer_parts out{storage::is_there(folder / trainer_state_name), false};
  const auto inside = contents_of_folder(folder, depth + 1);
  if (!inside || inside->checkpoints.front().problem) return out;
  const auto& first = inside->checkpoints.front();
  out.states = first.format != nullptr && first.format->has_states(first.path);
  return out;
}

/// Returns why the newest checkpoint, all.front(), is not complete: it cannot be found, or it lacks a kind of file that
/// the checkpoint before it has. Returns nothing if it is complete.
std::optional<core::error> cut_short(const std::vector<found_checkpoint>& all, int depth) {
  const auto& newest = all.front();
  const auto inside = contents_of_folder(newest.path, depth + 1);
  if (!inside) return inside.error();
  if (inside->checkpoints.front().problem) return inside->checkpoints.front().problem;
  if (all.size() < 2) return std::nullopt;
  const auto own = parts_in(newest.path, depth), before = parts_in(all[1].path, depth);
  std::vector<std::string> missing;
  if (before.run && !own.run) missing.emplace_back(trainer_state_name);
  if (before.states && !own.states) missing.emplace_back("optimizer's states");
  if (missing.empty()) return std::nullopt;
  return core::error{error_kind::bad_input,
                     fmt::format("'{}' has no {}, which {} has: it was not saved completely", newest.path.string(),
                                 fmt::join(missing, " and no "), all[1].name)};
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
                                      listed_names(names)));
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
  return std::ranges::any_of(
      newest, [&](const found_checkpoint& one) { return !one.name.empty() && parts_in(one.path, depth).states; });
}

core::result<folder_contents> contents_of_folder(const fs::path& path, int depth) {
  if (depth > max_folder_depth)
    return fail(error_kind::limit,
                fmt::format("'{}': its folders are nested too deeply: name the folder of the checkpoint itself",
                            path.string()));
  const auto ours = [&] { return only({path, "", &troupe_format}); };
  if (storage::is_there(path / manifest_file_name)) return ours();
  if (const auto latest = path / latest_file_name; storage::is_there(latest)) {
    TROUPE_ASSIGN(const auto name, tag_in(latest));
    // The named folder may be missing, because a checkpoint of Troupe may still have its working name, or it may be
    // damaged: open_checkpoint() finds or skips it.
    if ((step_of(name) || latest_is_ours(path)) &&
        (!storage::is_folder(path / name) || storage::is_there(path / name / manifest_file_name)))
      return ours();
    auto named = contents_of_named(path, latest, name, depth);
    // The folder may hold checkpoints of Troupe, although the one that `latest` names has lost its manifest.
    if ((!named || named->checkpoints.front().problem) && has_ours(path)) return ours();
    return named;
  }
  if (const auto latest = path / universal_latest_name; storage::is_there(latest)) {
    const auto name = tag_in(latest);
    return name ? contents_of_named(path, latest, *name, depth) : fail(name.error());
  }
  if (const auto latest = path / formats::megatron_latest_name; storage::is_there(latest)) {
    TROUPE_ASSIGN(const auto folder, formats::megatron_folder(path));
    return contents_of_tag(path, folder.filename().string(), fmt::format("'{}' names", latest.string()), depth);
  }
  const auto found = format_of_folder(path);
  const auto* own = found ? *found : nullptr;
  const auto itself = [&] { return only({path, "", own}); };
  if (own != nullptr && own->has_states(path)) return itself();
  if (own == nullptr && has_ours(path)) return ours();  // a folder of Troupe's checkpoints without `latest`
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

core::result<const formats::source_format*> recognise(const fs::path& path, const std::optional<std::string>& tag) {
  std::string last;
  for (auto contents = look_into(path, tag);; contents = look_into(fs::path(last))) {
    if (!contents) return fail(contents.error());
    const auto& first = contents->checkpoints.front();
    if (first.problem) return fail(*first.problem);
    if (first.format != nullptr) return first.format;
    if (first.path.string() == last) return refused(fmt::format("'{}' is not a checkpoint", last));
    last = first.path.string();
  }
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
