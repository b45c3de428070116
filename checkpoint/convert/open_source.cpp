#include "checkpoint/convert/open_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/commit/open.hpp"
#include "checkpoint/commit/open_native.hpp"
#include "checkpoint/convert/folder_contents.hpp"
#include "checkpoint/convert/part_of_model.hpp"
#include "formats/compressed/foreign.hpp"
#include "formats/names/name_map.hpp"
#include "formats/names/name_rules.hpp"
#include "formats/names/wrapper_names.hpp"
#include "formats/report/verify.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/safetensors/weights_index.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/torch/zip_reader.hpp"
#include "formats/trainer/numbered_states.hpp"
#include "formats/trainer/trainer.hpp"
#include "formats/weights/hugging_face.hpp"
#include "formats/weights/torch.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

// The steps of open_source(), in the order in which it takes them; each is defined below the one that calls it.

/// Opens the checkpoint, or the weights next to it, depending on what the command needs.
core::result<formats::tensor_source> open_chosen(const fs::path& path, const folder_contents& there,
                                                 const formats::source_options& options);
/// Opens the newest checkpoint. If it cannot be opened and fallback_to_previous is set, opens the newest of the older
/// checkpoints that can be opened, and adds sentences about the skipped ones to `notes`.
core::result<formats::tensor_source> open_newest(const fs::path& path, const folder_contents& there,
                                                 const formats::source_options& options,
                                                 std::vector<std::string>& notes);
/// Opens one checkpoint among several. Refuses lost states if the options need them; with fallback_to_previous, also
/// compares the CRC-32 of all zip archives, so that a damaged checkpoint is skipped before any of its bytes are used.
core::result<formats::tensor_source> open_among(const found_checkpoint& c, const formats::source_options& options);
/// Opens one checkpoint, whatever exists next to it: finds its format, calls that format's open(), then completed().
core::result<formats::tensor_source> open_one(found_checkpoint c, const formats::source_options& options);
/// Chooses between the weights of one file, `single`, and those of the shards that an index in the same folder lists,
/// and reports the choice. Uses the one file, as transformers does. A command that wants only weights uses the shards
/// instead if some matrix has more than 16 bits there and only 16 in the one file.
core::result<formats::tensor_source> chosen_of_two(formats::tensor_source single, const found_checkpoint& c,
                                                   const formats::source_options& options);
/// Does to a source, after the open() of its format, what several formats share: adds a trainer's optimizer states and
/// the text of config.json, refuses weights that are undecoded codes, and removes wrappers' parts from names.
core::result<formats::tensor_source> completed(formats::tensor_source s, const found_checkpoint& c,
                                               const formats::source_options& options);
/// Returns the source with its tensors renamed by the rules in `options`.
core::result<formats::tensor_source> named_by_rules(formats::tensor_source s, const fs::path& path,
                                                    const formats::source_options& options);

}  // namespace

core::result<formats::tensor_source> open_source(const fs::path& path, const formats::source_options& options) {
  TROUPE_ASSIGN(const auto there, look_into(path, options.tag));
  TROUPE_ASSIGN(auto source, open_chosen(path, there, options));
  // A source without tensors has no files that name its location.
  if (source.folder.empty() && source.files.empty()) source.folder = path;
  if (options.map.lines.empty()) return source;
  return named_by_rules(std::move(source), path, options);
}

namespace {

void say(const formats::source_options& options, const std::string& line) {
  if (options.say) options.say(line);
}

/// Returns the bare names (name_map.hpp) of the weight matrices that the source stores only in 16 bits; with
/// `of_16_bits` false, of all other weight matrices.
std::set<std::string> matrices_of(const formats::tensor_source& s, bool of_16_bits) {
  std::map<std::string_view, bool> narrow;
  for (const auto& t : s.tensors) {
    if (t.kind == formats::tensor_kind::moment || t.kind == formats::tensor_kind::buffer || t.shape.size() < 2)
      continue;
    const bool is_narrow = t.type == core::dtype::bf16 || t.type == core::dtype::f16;
    const auto [at, fresh] = narrow.try_emplace(t.name, is_narrow);
    if (!fresh) at->second = at->second && is_narrow;
  }
  std::set<std::string> out;
  for (const auto& [name, is_narrow] : narrow)
    if (is_narrow == of_16_bits) out.insert(formats::bare_name(name));
  return out;
}

/// True if some matrix has more than 16 bits in `s`, and in `than` has only 16 bits or is missing.
bool is_more_exact(const formats::tensor_source& s, const formats::tensor_source& than) {
  const auto wide = matrices_of(s, false), known = matrices_of(than, false);
  return std::ranges::any_of(wide, [&](const std::string& name) { return !known.contains(name); });
}

core::result<formats::tensor_source> open_chosen(const fs::path& path, const folder_contents& there,
                                                 const formats::source_options& options) {
  std::vector<std::string> notes;
  const auto with_notes = [&](core::result<formats::tensor_source> s) {
    if (s) s->found.insert(s->found.begin(), notes.begin(), notes.end());
    return s;
  };
  const auto tell = [&](const std::string& line) {
    notes.push_back(line);
    say(options, line);
  };
  if (!there.weights) {
    notes = there.notes;
    if (there.checkpoints.size() == 1)
      for (const auto& line : notes) say(options, line);
    auto found = open_newest(path, there, options, notes);
    return with_notes(std::move(found));
  }
  const auto name = core::shown(there.checkpoints.front().name);
  if (options.wants == formats::wanted_of_folder::weights) {
    auto own = open_one(*there.weights, options);
    if (!own) return own;
    if (matrices_of(*own, true).empty()) {
      tell(
          fmt::format("'{}': the weights in this folder are used, not {}, a checkpoint with optimizer states: name "
                      "'{}' to use that",
                      path.string(), name, there.checkpoints.front().path.string()));
      return with_notes(std::move(own));
    }
    auto deeper = open_newest(path, there, options, notes);
    if (!deeper) return deeper;
    if (!is_more_exact(*deeper, *own)) {
      tell(fmt::format("'{}': the weights in this folder are used, not those of {}, which have 16 bits as well",
                       path.string(), name));
      return with_notes(std::move(own));
    }
    tell(fmt::format("'{}': the 32-bit weights of {} are used, not the 16-bit weights in this folder", path.string(),
                     name));
    return with_notes(std::move(deeper));
  }
  auto found = open_newest(path, there, options, notes);
  if (!found) return found;
  notes.insert(notes.begin(), there.notes.begin(), there.notes.end());
  tell(
      fmt::format("'{}': {}, a checkpoint with optimizer states, is used, not the weights in this folder, which have "
                  "none: name their file to use them",
                  path.string(), core::shown(found->folder.lexically_relative(path).string())));
  return with_notes(std::move(found));
}

core::result<formats::tensor_source> open_newest(const fs::path& path, const folder_contents& there,
                                                 const formats::source_options& options,
                                                 std::vector<std::string>& notes) {
  const auto& all = there.checkpoints;
  if (all.size() == 1) return open_one(all.front(), options);
  auto first = open_among(all.front(), options);
  if (first) return first;
  if (!options.fallback_to_previous) {
    const bool says_so = !options.offers_older() || first.error().text.find(options.older_by) != std::string::npos;
    const auto opens = [&](const found_checkpoint& c) { return open_among(c, options).has_value(); };
    const auto older = says_so ? all.end() : std::find_if(all.begin() + 1, all.end(), opens);
    if (older == all.end()) return first;
    return fail(first.error().kind,
                fmt::format("{}; it is the newest in '{}': {} takes {} instead, --tag NAME another", first.error().text,
                            path.string(), options.older_by, core::shown(older->name)));
  }
  for (size_t i = 1; i < all.size(); ++i) {
    const auto& before = all[i - 1];
    const auto line = fmt::format("skipped: '{}': {}", core::shown(before.name.empty() ? path.string() : before.name),
                                  first.error().text);
    say(options, line);
    notes.push_back(line);
    auto found = open_among(all[i], options);
    if (found) {
      notes.push_back(fmt::format("used instead: '{}'", all[i].path.string()));
      say(options, notes.back());
      return found;
    }
    first = fail(found.error());
  }
  return fail(first.error().kind, fmt::format("none of the {} checkpoints in '{}' can be opened; the oldest: {}",
                                              all.size(), path.string(), first.error().text));
}

core::result<formats::tensor_source> open_among(const found_checkpoint& c, const formats::source_options& options) {
  TROUPE_ASSIGN(auto opened, open_one(c, options));
  if (options.needs_states && opened.lost_states) return fail(opened.lost_states->why);
  if (options.fallback_to_previous) TROUPE_TRY(formats::compare_sums(storage::real_files(), opened));
  return opened;
}

core::result<formats::tensor_source> open_one(found_checkpoint c, const formats::source_options& options) {
  TROUPE_ASSIGN(c, with_format(std::move(c)));
  TROUPE_ASSIGN(auto opened, c.format->open(c.path, options));
  TROUPE_ASSIGN(auto whole, completed(std::move(opened), c, options));
  return chosen_of_two(std::move(whole), c, options);
}

/// A file of all weights in a folder, and the index of weights in several files next to it.
struct weights_twice {
  std::string_view single;
  fs::path index;
};

/// Returns the two forms in which a folder holds its weights; nothing if it has one form, or if the index lists only
/// the single file.
std::optional<weights_twice> weights_twice_in(const fs::path& folder) {
  const auto found = [&](std::string_view single, std::string_view usual,
                         std::string_view infix) -> std::optional<weights_twice> {
    const auto index = formats::find_weights_index(folder, usual, infix);
    if (!index) return std::nullopt;
    const auto weights = formats::read_weights_index(*index);
    if (!weights || std::ranges::all_of(*weights, [&](const auto& w) { return w.second == single; }))
      return std::nullopt;
    return weights_twice{single, *index};
  };
  if (storage::is_there(folder / formats::single_file_name))
    return found(formats::single_file_name, formats::index_file_name, formats::safetensors_index_infix);
  if (storage::is_there(folder / formats::torch_file_name))
    return found(formats::torch_file_name, formats::torch_index_file_name, formats::torch_index_infix);
  return std::nullopt;
}

core::result<formats::tensor_source> chosen_of_two(formats::tensor_source single, const found_checkpoint& c,
                                                   const formats::source_options& options) {
  const auto both = c.format->has_trainer_files && storage::is_folder(c.path) ? weights_twice_in(c.path) : std::nullopt;
  if (!both) return single;
  const auto tell = [&](formats::tensor_source& s, const std::string& line) {
    s.found.insert(s.found.begin(), line);
    say(options, line);
  };
  const auto index = core::shown(both->index.filename().string());
  if (options.wants == formats::wanted_of_folder::weights && !matrices_of(single, true).empty()) {
    auto shards = c.format->open(both->index, options);
    if (shards) shards = completed(std::move(*shards), c, options);
    if (!shards) {
      tell(single, fmt::format("'{}': the 16-bit weights of {} are used, because the shards that {} lists cannot be "
                               "read: {}",
                               c.path.string(), both->single, index, shards.error().text));
      return single;
    }
    if (is_more_exact(*shards, single)) {
      tell(*shards, fmt::format("'{}': the 32-bit weights of the shards that {} lists are used, not the 16-bit weights "
                                "of {}",
                                c.path.string(), index, both->single));
      return shards;
    }
  }
  tell(single, fmt::format("'{}': {} is used, as transformers does, not the shards that {} lists: name that index to "
                           "use them",
                           c.path.string(), both->single, index));
  return single;
}

/// Returns the text of config.json in the folder or in the one above it: DeepSpeed and FSDP save into a subfolder of
/// the trainer's folder, which has the model's description. Empty if neither has one that can be read.
std::string config_above(const fs::path& folder) {
  auto model = formats::read_model_config(folder);
  if (model && model->empty()) model = formats::read_model_config(folder.parent_path());
  return model ? std::move(*model) : std::string();
}

core::result<formats::tensor_source> completed(formats::tensor_source s, const found_checkpoint& c,
                                               const formats::source_options& options) {
  if (c.format->has_trainer_files && storage::is_folder(c.path)) {
    TROUPE_ASSIGN(s, formats::with_trainer_states(std::move(s)));
  }
  if (c.format->lies_below_config && !c.format->has_trainer_files) formats::say_other_trainer_step(s);
  if (c.format->lies_below_config && s.run.model.empty() && !s.folder.empty()) s.run.model = config_above(s.folder);
  if (const auto part = storage::is_folder(c.path) ? std::nullopt : part_of_model(c.path)) s.remarks.push_back(*part);
  if (!c.format->has_module_names) return s;
  TROUPE_TRY(formats::judge_codes(s, options.as_stored));
  TROUPE_ASSIGN(auto out, formats::unwrapped(std::move(s)));
  if (const auto adapter = storage::is_folder(c.path) ? formats::unused_adapter_in(c.path) : std::nullopt)
    out.remarks.push_back(std::string(formats::left_out_mark) + *adapter);
  return out;
}

core::result<formats::tensor_source> named_by_rules(formats::tensor_source s, const fs::path& path,
                                                    const formats::source_options& options) {
  TROUPE_ASSIGN(const auto rules, formats::name_rules::of(options.map));
  const auto is_named = [&](const formats::tensor_entry& t) { return rules.find_in(s, t.name).has_value(); };
  if (options.say && std::ranges::none_of(s.tensors, is_named))
    options.say(fmt::format("no rule of {} matches a tensor of '{}'", options.map.where, path.string()));
  auto named = rules.applied_to(std::move(s));
  if (!named) return fail(named.error().in(fmt::format("by the names of {}", options.map.where)));
  return named;
}

}  // namespace

core::error with_way_around(core::error e, const fs::path& path, const formats::source_options& options) {
  if (!options.offers_older()) return e;
  if (!formats::is_damage(e)) return e;
  const auto says = [&](std::string_view part) { return e.text.find(part) != std::string::npos; };
  const auto there = look_into(path);
  if (there && there->checkpoints.size() > 1 && says(formats::sum_differs)) {
    const auto& all = there->checkpoints;
    std::error_code ec;
    const fs::path real = fs::canonical(all.front().path, ec);
    if (!says(all.front().path.string()) && (ec || !says(real.string()))) return e;
    const auto opens = [&](const found_checkpoint& c) { return open_among(c, options).has_value(); };
    const auto older = std::find_if(all.begin() + 1, all.end(), opens);
    if (older != all.end())
      e.text += fmt::format("; it is in the newest checkpoint of '{}': {} takes the newest that is whole instead",
                            path.string(), options.older_by);
    return e;
  }
  if (!there || there->checkpoints.front().format != &troupe_format) return e;
  const auto& root = there->checkpoints.front().path;
  const auto newest = open_checkpoint(storage::real_files(), root);
  const auto all = storage::real_files().list(root);
  if (!newest || !all || newest->folder == root || e.text.find(newest->folder.string()) == std::string::npos) return e;
  const auto is_older = [&](const storage::folder_entry& x) {
    if (x.kind != storage::entry_kind::folder || !is_checkpoint_name(x.name)) return false;
    const auto other = open_folder(storage::real_files(), root / x.name);
    return other && other->content.run.step < newest->content.run.step;
  };
  if (std::ranges::any_of(*all, is_older))
    e.text += fmt::format("; {} takes the newest that is whole instead", options.older_by);
  return e;
}

}  // namespace troupe::checkpoint
