#include "apps/checkpoint/described_checkpoint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "checkpoint/convert/open_source.hpp"
#include "config/document/name_map_file.hpp"
#include "core/json_text.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "families/all_families.hpp"
#include "formats/gguf/families.hpp"
#include "formats/names/name_map.hpp"
#include "formats/names/tied_names.hpp"
#include "formats/names/wrapper_names.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/weight_averages.hpp"
#include "formats/trainer/numbered_states.hpp"
#include "job/compression/mask_scores.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Returns the options with which the source is opened, without the names of --map.
formats::source_options options_without_map(const source_arguments& a) {
  formats::source_options out;
  if (!a.tag.empty()) out.tag = a.tag;
  out.fallback_to_previous = a.fallback_to_previous;
  out.older_by = a.older_by;
  out.say = say_for(a);
  // exported weights have no averages beside them
  out.wants =
      a.wants_weights && !a.averaged ? formats::wanted_of_folder::weights : formats::wanted_of_folder::checkpoint;
  out.as_stored = a.as_stored;
  out.needs_states = !a.wants_weights && !a.as_stored;
  return out;
}

/// If the model's keys tie the head to the embedding but the checkpoint has different values for the head, makes the
/// head a parameter of its own, and changes the keys accordingly.
core::result<void> settle_head(const source_arguments& a, described_checkpoint& c) {
  if (!ties_head(c.model)) return {};
  TROUPE_ASSIGN(auto settled, formats::settle_tied_head(std::move(c.source), c.model.model_type));
  c.source = std::move(settled.source);
  if (settled.own_values.empty()) return {};
  note(a, "warning: " + settled.own_values);
  untie_head(c.model);
  return {};
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

/// Returns the weight `name`, or the weight to which the name is tied; null if the source has neither.
const formats::tensor_entry* parameter_named(const formats::tensor_source& s, const std::string& name) {
  using formats::tensor_kind;
  for (const auto kind : {tensor_kind::master, tensor_kind::frozen, tensor_kind::weight})
    if (const auto* t = formats::find_tensor(s, name, kind)) return t;
  return nullptr;
}

tl::unexpected<core::error> mismatch(const described_checkpoint& c, const std::string& text) {
  return fail(error_kind::mismatch, fmt::format("'{}': {}", formats::shown_place(c.source), text));
}

tl::unexpected<core::error> other_shape(const described_checkpoint& c, const std::string& name,
                                        const std::vector<int64_t>& wanted, const std::vector<int64_t>& got) {
  const bool turned = wanted.size() == 2 && got.size() == 2 && wanted[0] == got[1] && wanted[1] == got[0];
  return mismatch(c, fmt::format("by the model's config.json tensor '{}' must have the shape {}, got {}{}",
                                 formats::shown(name), shape_text(wanted), shape_text(got),
                                 turned ? ", its transpose: GPT-2's linear layers are (in, out) in Hugging Face's "
                                          "files, and (out, in) in nanoGPT's"
                                        : ""));
}

/// Checks that all parameters of the model exist, with their shapes, as floating-point numbers.
core::result<void> check_wanted(const described_checkpoint& c, std::span<const formats::wanted_tensor> wanted) {
  const formats::name_map names(c.source);
  std::vector<std::string> missing;
  for (const auto& w : wanted) {
    const auto name = names.find(w.name);
    const auto* t = name ? parameter_named(c.source, *name) : nullptr;
    if (t == nullptr)
      missing.push_back(w.name);
    else if (t->shape != w.shape)
      return other_shape(c, *name, w.shape, t->shape);
    else if (!formats::is_floating(t->type))
      return mismatch(c, fmt::format("parameter '{}': wanted a floating type, got {}", formats::shown(*name),
                                     core::name_of(t->type)));
  }
  if (missing.empty()) return {};
  return mismatch(c, fmt::format("it lacks {} parameters of the model that its config.json describes, such as {}",
                                 missing.size(), formats::first_names(missing)));
}

/// Returns the layer number in a parameter's name: the number after `layers.` or `h.`; nothing if there is none.
std::optional<uint64_t> layer_number(std::string_view name) {
  for (const std::string_view before : {"layers.", "h."}) {
    if (!name.starts_with(before)) continue;
    auto rest = name.substr(before.size());
    if (const auto number = core::take_number<uint64_t>(rest); number && rest.starts_with('.')) return number;
  }
  return std::nullopt;
}

/// Compares the embedding's shape and the number of layers with the config.json of an unknown family.
core::result<void> check_unknown_family(const described_checkpoint& c) {
  const auto is_of_gguf = [](const auto& t) { return t.name == "token_embd.weight" || t.name.starts_with("blk."); };
  if (std::ranges::any_of(c.source.tensors, is_of_gguf)) return fail(no_description_of(c.source));
  const auto keys = core::parse_json<nlohmann::ordered_json>(c.model.json, max_description_depth);
  const auto size = [&](const char* key) -> std::optional<int64_t> {
    if (!keys || !keys->is_object()) return std::nullopt;
    const auto at = keys->find(key);
    return at != keys->end() && at->is_number_unsigned() ? std::optional(at->get<int64_t>()) : std::nullopt;
  };
  const auto vocabulary = size("vocab_size"), width = size("hidden_size"), layers = size("num_hidden_layers");
  std::set<uint64_t> seen;
  for (const auto& t : c.source.tensors) {
    if (t.kind == formats::tensor_kind::moment || t.kind == formats::tensor_kind::buffer) continue;
    const auto bare = formats::bare_name(t.name);
    if (const auto n = layer_number(bare)) seen.insert(*n);
    const bool is_embedding = bare == "embed_tokens.weight" || bare == formats::head_name;
    const std::vector<int64_t> wanted{vocabulary.value_or(0), width.value_or(0)};
    if (is_embedding && vocabulary && width && t.shape != wanted) return other_shape(c, t.name, wanted, t.shape);
  }
  // layers for multi-token prediction in DeepSeek's models, which follow the transformer layers
  const auto extra = size("num_nextn_predict_layers").value_or(0);
  const auto held = static_cast<int64_t>(seen.size());
  if (!layers || seen.empty() || (*seen.rbegin() + 1 == seen.size() && (held == *layers || held == *layers + extra)))
    return {};
  return mismatch(c, fmt::format("its config.json says num_hidden_layers {}, but it holds {} layers, the last with the "
                                 "number {}",
                                 *layers, seen.size(), *seen.rbegin()));
}

/// Returns the names of the techniques that had begun to quantise or mask the weights of a run after `updates` updates.
std::vector<std::string_view> techniques_after(uint64_t updates, const config::compression_section& c) {
  std::vector<std::string_view> out;
  if (c.weights.enabled && c.weights.schedule_offset <= updates) out.emplace_back("weight_quantization");
  const std::array<std::pair<std::string_view, const config::pruning_section*>, 4> prunings{
      {{"sparse_pruning", &c.sparse},
       {"row_pruning", &c.rows},
       {"head_pruning", &c.heads},
       {"channel_pruning", &c.channels}}};
  for (const auto& [name, section] : prunings)
    if (section->enabled && section->schedule_offset <= updates) out.push_back(name);
  return out;
}

}  // namespace

core::error with_way_around(core::error e, const source_arguments& a) {
  return checkpoint::with_way_around(std::move(e), a.path, options_without_map(a));
}

core::result<formats::tensor_source> open_checkpoint_at(const source_arguments& a, const fs::path& model_config,
                                                        std::optional<model_description>* known) {
  auto options = options_without_map(a);
  TROUPE_ASSIGN(auto map, config::read_name_map(a.map));
  options.map = std::move(map);
  auto source = checkpoint::open_source(a.path, options);
  if (source && a.allow_overflow) source->clamped = std::make_shared<formats::clamped_values>();
  if (source && options.needs_states && source->lost_states)
    return fail(
        source->lost_states->why.kind,
        fmt::format("{}; the weights alone are written by to-hf, to-fp32 and to-gguf", source->lost_states->why.text));
  if (source && a.averaged) source = formats::with_averages(std::move(*source));
  if (!source || source->numbered == nullptr) return source;
  TROUPE_ASSIGN(auto model, describe_model(*source, model_config, a.ignored_keys));
  if (const auto order = parameters_of(model); order.empty())
    formats::leave_out_states(*source,
                              "it numbers its parameters, and the order of this model's parameters is not known here");
  else if (const auto ok = formats::name_states(*source, order); !ok)
    formats::leave_out_states(*source, ok.error().text);
  if (known != nullptr) *known = std::move(model);
  return source;
}

core::result<described_checkpoint> open_described(const source_arguments& a, const fs::path& model_config) {
  std::optional<model_description> known;
  TROUPE_ASSIGN(auto source, open_checkpoint_at(a, model_config, &known));
  warn_of_left_out(a, source);
  if (!known) {
    TROUPE_ASSIGN(known, describe_model(source, model_config, a.ignored_keys));
  }
  auto& model = *known;
  if (!model.json.empty())
    if (const auto sizes = models::parse_model_sizes(model.json, a.ignored_keys); !sizes)
      return fail(sizes.error().in(fmt::format("the model of '{}'", formats::shown_place(source))));
  const auto wanted = parameters_of(model);
  TROUPE_ASSIGN(auto named, formats::named_by_layers(std::move(source), wanted));
  TROUPE_ASSIGN(auto single, formats::without_further_names(std::move(named), wanted));
  described_checkpoint out{std::move(single.source), std::move(model)};
  if (const auto& names = single.left_out; !names.empty())
    note(a, fmt::format("warning: '{}': {} further name{} of its parameters that its model does not have {} left out, "
                        "such as {}",
                        formats::shown_place(out.source), names.size(), names.size() == 1 ? "" : "s",
                        names.size() == 1 ? "is" : "are", formats::first_names(names)));
  TROUPE_TRY(settle_head(a, out));
  return out;
}

core::result<void> check_parameters(const described_checkpoint& c) {
  const auto peft = c.model.json.empty() ? std::nullopt : formats::peft_finding(c.source);
  if (const auto run = peft ? own_configuration(c.source) : std::nullopt; run && run->lora.given)
    return fail(error_kind::mismatch,
                fmt::format("'{}' holds adapters beside their base: `troupe checkpoint to-peft` writes the adapters, "
                            "and merge-adapter adds them to the base",
                            formats::shown_place(c.source)));
  if (peft) return fail(error_kind::mismatch, fmt::format("'{}' {}", formats::shown_place(c.source), *peft));
  const auto wanted = parameters_of(c.model);
  if (wanted.empty()) {
    if (!c.source.has_layer_names) return check_unknown_family(c);
    return tl::unexpected(formats::unnamed_layers(c.source, wanted));
  }
  std::vector<std::string> names;
  for (const auto& w : wanted) names.push_back(w.name);
  const auto strangers = formats::name_map(c.source).unexpected(names);
  if (strangers.empty()) return check_wanted(c, wanted);
  if (c.source.has_layer_names) return tl::unexpected(formats::unnamed_layers(c.source, wanted));
  if (std::ranges::all_of(strangers, [](const std::string& name) { return job::is_score_name(name); }))
    return fail(
        error_kind::mismatch,
        fmt::format("'{}' holds scores of masks that its run learns, such as {}, which other programs cannot load: "
                    "`troupe compress` with --clean makes the masks permanent",
                    formats::shown_place(c.source), formats::first_names(strangers)));
  return fail(error_kind::mismatch,
              fmt::format("'{}' holds {} parameters that its model does not have, such as {}: wanted {}; map the names "
                          "with a file (--map)",
                          formats::shown_place(c.source), strangers.size(), formats::first_names(strangers),
                          formats::first_names(names)));
}

core::result<void> check_described(const described_checkpoint& c) {
  return c.model.json.empty() ? fail(no_description_of(c.source)) : check_parameters(c);
}

core::result<void> check_given_description(const source_arguments& a, formats::tensor_source s,
                                           model_description model) {
  if (const auto sizes = models::parse_model_sizes(model.json, model.ignored_keys); !sizes)
    return fail(sizes.error().in("--model-config"));
  TROUPE_ASSIGN(auto single, formats::without_further_names(std::move(s), parameters_of(model)));
  described_checkpoint c{std::move(single.source), std::move(model)};
  TROUPE_TRY(settle_head(a, c));
  return check_parameters(c);
}

void note_unclean(const source_arguments& a, const formats::tensor_source& s) {
  const auto run = own_configuration(s);
  if (!run) return;
  const auto techniques = techniques_after(s.run.applied_updates.value_or(0), run->compression);
  if (techniques.empty()) return;
  note(a, fmt::format("warning: '{}': its run computes with {}, and the weights are written without: `troupe compress` "
                      "with --clean writes masks and grids into them",
                      formats::shown_place(s), fmt::join(techniques, ", ")));
}

core::result<models::model_spec> computed_model(const described_checkpoint& c) {
  auto spec = models::parse_model_spec(c.model.json, c.model.ignored_keys);
  if (!spec) return fail(spec.error().in("computing with the model"));
  if (const auto run = own_configuration(c.source); run && run->loss.logit_soft_cap > 0)
    spec->logits.soft_cap = run->loss.logit_soft_cap;
  return spec;
}

core::result<described_checkpoint> open_to_export(const source_arguments& a, const fs::path& model_config) {
  TROUPE_ASSIGN(auto out, open_described(a, model_config));
  TROUPE_TRY(check_described(out));
  note_unclean(a, out.source);
  return out;
}

namespace {

/// True for a buffer of a model of a known family, except for the buffers that old versions of transformers stored: the
/// models of known families have no buffers in their files.
bool is_foreign_buffer(const described_checkpoint& c, const formats::tensor_entry& t) {
  return t.kind == formats::tensor_kind::buffer && families::find(c.model.model_type) != nullptr &&
         !formats::is_derived_buffer(formats::bare_name(t.name));
}

}  // namespace

void note_foreign_buffers(const source_arguments& a, const described_checkpoint& c) {
  std::vector<std::string> names;
  for (const auto& t : c.source.tensors)
    if (is_foreign_buffer(c, t)) names.push_back(t.name);
  if (names.empty()) return;
  note(a, fmt::format("warning: '{}': {} buffer{} that its model does not have {} left out, such as {}",
                      formats::shown_place(c.source), names.size(), names.size() == 1 ? "" : "s",
                      names.size() == 1 ? "is" : "are", formats::first_names(names)));
}

std::optional<std::string> exported_name(const described_checkpoint& c, const std::string& name) {
  const bool is_tied = std::ranges::any_of(c.source.tied, [&](const auto& t) { return t.name == name; });
  if ((c.model.tied_embedding && is_tied) || formats::is_rope_tensor(name)) return std::nullopt;
  const auto* const buffer = formats::find_tensor(c.source, name, formats::tensor_kind::buffer);
  if (buffer != nullptr && is_foreign_buffer(c, *buffer)) return std::nullopt;
  return formats::hugging_face_name(c.model.model_type, name);
}

}  // namespace troupe::apps
