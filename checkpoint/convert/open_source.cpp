#include "checkpoint/convert/open_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/commit/node_parts.hpp"
#include "checkpoint/commit/reading_mark.hpp"
#include "checkpoint/compressed/foreign.hpp"
#include "checkpoint/compressed/source.hpp"
#include "checkpoint/deepspeed/source.hpp"
#include "checkpoint/deepspeed/universal_source.hpp"
#include "checkpoint/distributed/source.hpp"
#include "checkpoint/gguf/source.hpp"
#include "checkpoint/source/hugging_face.hpp"
#include "checkpoint/source/layer_names.hpp"
#include "checkpoint/source/name_map.hpp"
#include "checkpoint/source/name_rules.hpp"
#include "checkpoint/source/numbered_states.hpp"
#include "checkpoint/source/peft_names.hpp"
#include "checkpoint/source/torch.hpp"
#include "checkpoint/source/trainer.hpp"
#include "checkpoint/source/verify.hpp"
#include "checkpoint/source/wrapper_names.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;

/// Maximum number of nested folders through which open_one() follows a path to a checkpoint.
constexpr int max_steps_down = 4;

/// True if an error message may suggest the option fallback_to_previous.
bool offers_older(const source_options& o) { return !o.fallback_to_previous && !o.tag && !o.older_by.empty(); }

/// Returns "; --fallback-to-previous takes step-00000005 instead" for a folder whose newest checkpoint cannot be
/// opened; empty if no other can be opened.
std::string older_instead(const fs::path& path, const source_options& options) {
  if (!offers_older(options)) return "";
  const auto older =
      open_checkpoint(real_files(), path, {.fallback_to_previous = true, .fallback_check = good_enough::opens});
  if (!older) return "";
  return fmt::format("; {} takes {} instead", options.older_by, core::shown(older->folder.filename().string()));
}

core::result<tensor_source> open_ours(const fs::path& path, const source_options& options) {
  const open_options how{.fallback_to_previous = options.fallback_to_previous && !options.tag, .say = options.say};
  const auto found = open_checkpoint(real_files(), path, how);
  if (!found) {
    auto parts = open_node_parts(real_files(), path);
    if (!parts || !*parts) return fail(found.error().kind, found.error().text + older_instead(path, options));
    (*parts)->mark = mark_as_read((*parts)->folder);
    return std::move(**parts);
  }
  auto out = source_of(*found);
  out.mark = mark_as_read(found->folder);
  return out;
}

/// Adds the states that Trainer and Accelerate keep next to the weights, named after the parameters if their order is
/// known.
core::result<tensor_source> with_states(core::result<tensor_source> weights, const fs::path& at) {
  std::error_code ec;
  if (!weights || !fs::is_directory(at, ec)) return weights;
  auto out = with_trainer_states(std::move(*weights));
  // a caller that knows the model may still name states that the file's own order does not fit
  if (out && !out->parameter_order.empty()) static_cast<void>(name_states(*out, parameters_of(*out)));
  return out;
}

/// Opens the weights of a Hugging Face folder, with decoded values if their codes can be decoded.
core::result<tensor_source> open_weights(const fs::path& at, const source_options& options) {
  std::error_code ec;
  TROUPE_ASSIGN(const auto config, read_model_config(fs::is_directory(at, ec) ? at : at.parent_path()));
  if (options.as_stored && foreign_codes_of(config)) return read_codes_as_stored(at);
  TROUPE_ASSIGN(const auto is_compressed, is_compressed_folder(at));
  if (is_compressed) return read_compressed_source(at);
  return options.as_stored ? read_codes_as_stored(at) : read_hugging_face_source(at);
}

core::result<tensor_source> open_format(source_format format, const fs::path& at, const source_options& options) {
  switch (format) {
    case source_format::troupe:
      return open_ours(at, options);
    case source_format::deepspeed:
      return read_deepspeed_source(at);
    case source_format::universal:
      return read_universal_source(at);
    case source_format::distributed:
      return with_states(read_distributed_source(at), at);
    case source_format::hugging_face:
      return with_states(open_weights(at, options), at);
    case source_format::torch:
      return with_states(read_torch_source(at), at);
    case source_format::gguf:
      return read_gguf_source(at);
  }
  return fail(error_kind::bug, "no reader for this format");
}

/// Refuses codes that would be taken for values; with as_stored it adds a remark that names them.
core::result<void> judge_codes(tensor_source& s, const source_options& options) {
  auto codes = foreign_codes_of(s);
  if (!codes) codes = foreign_codes_of(s.run.model);
  if (!codes) return {};
  if (!options.as_stored) return fail(foreign_refusal(shown_place(s), *codes));
  s.remarks.push_back(fmt::format(
      "weights are quantised with {} ({}) and are shown as they are stored: no command can decode their values",
      codes->method, codes->sign));
  return {};
}

/// Opens one checkpoint, whatever exists next to it.
core::result<tensor_source> open_one(const found_checkpoint& c, const source_options& options, int steps = 0) {
  if (c.problem) return fail(*c.problem);
  if (!c.format) {
    if (steps == max_steps_down)
      return fail(error_kind::bad_input, fmt::format("'{}' is not a checkpoint", c.path.string()));
    const auto inside = look_into(c.path);
    return inside ? open_one(inside->checkpoints.front(), options, steps + 1) : fail(inside.error());
  }
  auto out = open_format(*c.format, c.path, options);
  if (!out || *c.format == source_format::troupe || *c.format == source_format::gguf) return out;
  if (out->run.model.empty() && c.format != source_format::hugging_face && !out->folder.empty()) {
    // DeepSpeed and FSDP save into a subfolder of the trainer's folder, which has the model's description
    auto model = read_model_config(out->folder);
    if (model && model->empty()) model = read_model_config(out->folder.parent_path());
    if (model) out->run.model = std::move(*model);
  }
  TROUPE_TRY(judge_codes(*out, options));
  out = unwrapped(std::move(*out));
  if (out)
    if (auto found = peft_finding(*out)) out->remarks.push_back("it " + *found);
  return out;
}

void say(const source_options& options, const std::string& line) {
  if (options.say) options.say(line);
}

/// Opens the newest checkpoint; if it cannot be opened and fallback_to_previous is set, the newest that can.
core::result<tensor_source> open_newest(const fs::path& path, const folder_contents& there,
                                        const source_options& options, std::vector<std::string>& notes) {
  const auto& all = there.checkpoints;
  auto first = open_one(all.front(), options);
  if (first || all.size() == 1) return first;
  if (!options.fallback_to_previous) {
    const bool says_so = !offers_older(options) || first.error().text.find(options.older_by) != std::string::npos;
    const auto opens = [&](const found_checkpoint& c) { return open_one(c, options).has_value(); };
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
    auto found = open_one(all[i], options);
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

/// Returns the bare names of the matrices among the weights that exist only in 16 bits (`of_16_bits`), or of all
/// others.
std::set<std::string> matrices_of(const tensor_source& s, bool of_16_bits) {
  std::map<std::string_view, bool> narrow;
  for (const auto& t : s.tensors) {
    if (t.kind == tensor_kind::moment || t.kind == tensor_kind::buffer || t.shape.size() < 2) continue;
    const bool is_narrow = t.type == core::dtype::bf16 || t.type == core::dtype::f16;
    const auto [at, fresh] = narrow.try_emplace(t.name, is_narrow);
    if (!fresh) at->second = at->second && is_narrow;
  }
  std::set<std::string> out;
  for (const auto& [name, is_narrow] : narrow)
    if (is_narrow == of_16_bits) out.insert(bare_name(name));
  return out;
}

/// True if `s` has a matrix in more than 16 bits that `than` has only in 16 bits or not at all.
bool is_more_exact(const tensor_source& s, const tensor_source& than) {
  const auto wide = matrices_of(s, false), known = matrices_of(than, false);
  return std::ranges::any_of(wide, [&](const std::string& name) { return !known.contains(name); });
}

/// Opens the checkpoint, or the weights next to it, depending on what the command needs.
core::result<tensor_source> open_chosen(const fs::path& path, const folder_contents& there,
                                        const source_options& options) {
  std::vector<std::string> notes;
  const auto with_notes = [&](core::result<tensor_source> s) {
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
  if (options.wants == wanted_of_folder::weights) {
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

core::result<tensor_source> open_as_it_is(const fs::path& path, const source_options& options) {
  TROUPE_ASSIGN(const auto there, look_into(path, options.tag));
  return open_chosen(path, there, options);
}

}  // namespace

core::error with_way_around(core::error e, const fs::path& path, const source_options& options) {
  if (!offers_older(options) || e.text.find(digest_differs) == std::string::npos) return e;
  const auto there = look_into(path);
  if (!there || there->checkpoints.front().format != source_format::troupe) return e;
  const auto& root = there->checkpoints.front().path;
  const auto newest = open_checkpoint(real_files(), root);
  const auto all = real_files().list(root);
  if (!newest || !all || newest->folder == root || e.text.find(newest->folder.string()) == std::string::npos) return e;
  const auto is_older = [&](const folder_entry& x) {
    if (x.kind != entry_kind::folder || !is_checkpoint_name(x.name)) return false;
    const auto other = open_folder(real_files(), root / x.name);
    return other && other->content.run.step < newest->content.run.step;
  };
  if (std::ranges::any_of(*all, is_older))
    e.text += fmt::format("; {} takes the newest that is whole instead", options.older_by);
  return e;
}

core::result<tensor_source> open_source(const fs::path& path, const source_options& options) {
  auto source = open_as_it_is(path, options);
  // A source without tensors has no files that name its location.
  if (source && source->folder.empty() && source->files.empty()) source->folder = path;
  if (!source || options.map.lines.empty()) return source;
  TROUPE_ASSIGN(const auto rules, name_rules::of(options.map));
  const auto is_named = [&](const tensor_entry& t) { return rules.find_in(*source, t.name).has_value(); };
  if (options.say && std::ranges::none_of(source->tensors, is_named))
    options.say(fmt::format("no rule of {} matches a tensor of '{}'", options.map.where, path.string()));
  auto named = rules.applied_to(std::move(*source));
  if (!named) return fail(named.error().in(fmt::format("by the names of {}", options.map.where)));
  return named;
}

}  // namespace troupe::checkpoint
