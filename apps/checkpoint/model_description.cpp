#include "apps/checkpoint/model_description.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "config/load.hpp"
#include "core/json_text.hpp"
#include "core/text.hpp"
#include "families/rows.hpp"
#include "formats/gguf/families.hpp"
#include "formats/gguf/source.hpp"
#include "formats/names/further_names.hpp"
#include "formats/names/name_map.hpp"
#include "formats/names/tied_head.hpp"
#include "formats/names/wrapper_names.hpp"
#include "formats/report/inspect.hpp"
#include "formats/source/element_cast.hpp"
#include "job/compression/mask_scores.hpp"
#include "models/table/config_keys.hpp"
#include "models/table/model_spec.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr size_t max_depth = 64;
constexpr const char* description_name = "config.json";
constexpr const char* tie_key = "tie_word_embeddings";
/// Model types outside of families/ whose head shares the embedding's weight even if config.json does not contain the
/// key `tie_word_embeddings`, because save_pretrained() omits keys with default values.
constexpr std::array<std::string_view, 4> tied_types{"gemma", "gemma2", "gemma3_text", "gpt_neo"};

bool is_ignored(const model_description& m, std::string_view key) {
  return std::ranges::find(m.ignored_keys, key) != m.ignored_keys.end();
}

json parsed(const std::string& text) {
  auto out = core::parse_json<json>(text, max_depth);
  return out ? std::move(*out) : json();
}

/// True if the head of models of this type shares the embedding's weight when config.json does not contain the key
/// `tie_word_embeddings`.
bool is_usually_tied(std::string_view model_type) {
  if (const auto* f = families::find(model_type)) return f->keys.tied.usual;
  return std::ranges::find(tied_types, model_type) != tied_types.end();
}

/// Removes keys of a GGUF file that config.json has no name for and that the user chose to ignore. Returns true if
/// there were any.
bool erase_gguf_keys(json& keys, const std::string& model_type) {
  std::vector<std::string> found;
  for (const auto& [key, value] : keys.items())
    if (key.starts_with(model_type + ".")) found.push_back(key);
  for (const auto& key : found) keys.erase(key);
  return !found.empty();
}

core::result<model_description> from_text(const std::string& text, const std::string& where) {
  const auto keys = parsed(text);
  if (!keys.is_object())
    return fail(error_kind::bad_input, fmt::format("{}: wanted a JSON object as Hugging Face's config.json", where));
  model_description out;
  out.json = text;
  out.place = where;
  if (keys.contains("model_type") && keys["model_type"].is_string()) out.model_type = keys["model_type"];
  const auto tied = keys.find(tie_key);
  out.tied_embedding = tied != keys.end() && tied->is_boolean() ? tied->get<bool>() : is_usually_tied(out.model_type);
  return out;
}

core::result<model_description> from_file(const fs::path& file) {
  TROUPE_ASSIGN(const auto text, storage::read_small_file(storage::real_files(), file, max_description_bytes));
  return from_text(text, fmt::format("'{}'", file.string()));
}

}  // namespace

namespace {

core::result<model_description> described(const formats::tensor_source& s, const fs::path& file) {
  if (!file.empty()) return from_file(file);
  if (s.run.model.starts_with('{')) {
    const auto beside = s.folder / description_name;
    const auto text = storage::read_small_file(storage::real_files(), beside, max_description_bytes);
    return from_text(s.run.model, text && *text == s.run.model
                                      ? fmt::format("'{}'", beside.string())
                                      : fmt::format("the model of '{}'", formats::shown_place(s)));
  }
  for (const auto& path : {fs::path(s.run.model), s.folder}) {
    std::error_code e;
    if (!path.empty() && fs::is_regular_file(path / description_name, e)) return from_file(path / description_name);
  }
  return model_description{};
}

}  // namespace

core::result<model_description> describe_model(const formats::tensor_source& s, const fs::path& file,
                                               const std::vector<std::string>& ignored_keys) {
  auto out = described(s, file);
  if (!out || ignored_keys.empty()) return out;
  if (out->json.empty()) return fail(no_description_of(s).in(fmt::format("--ignore-key {}", ignored_keys.front())));
  if (const auto absent = models::absent_key(out->json, ignored_keys))
    return fail(error_kind::bad_input, fmt::format("--ignore-key: {} {}", out->place, *absent));
  out->ignored_keys = ignored_keys;
  return out;
}

core::error no_description_of(const formats::tensor_source& s) {
  const auto keys = formats::gguf_metadata_of(s);
  const auto architecture = keys ? keys->text("general.architecture") : std::string();
  if (!architecture.empty())
    return {
        error_kind::bad_input,
        fmt::format("'{}' has the architecture {}, which is not known here: use the Hugging Face folder of the model "
                    "from which it was made",
                    s.files.front().path.string(), core::shown(architecture))};
  return {error_kind::bad_input,
          fmt::format("'{}' does not describe its model: give Hugging Face's config.json by --model-config",
                      formats::shown_place(s))};
}

std::vector<formats::wanted_tensor> parameters_of(const model_description& m) {
  const auto spec = models::parse_model_sizes(m.json, m.ignored_keys);
  if (!spec || !*spec) return {};
  std::vector<formats::wanted_tensor> out;
  for (auto& p : models::make_model_table(**spec, 1, 1, core::size_of(core::dtype::f32)).parameters)
    out.push_back({std::move(p.name), std::move(p.shape)});
  return out;
}

formats::parameter_cuts cuts_of(const model_description& m, uint32_t ranks) {
  const auto spec = models::parse_model_sizes(m.json, m.ignored_keys);
  const models::tensor_split split{.degree = ranks};
  if (ranks < 2 || !spec || !*spec || !models::check_split(**spec, split)) return {};
  const auto table = models::make_model_table(**spec, 1, 1, core::size_of(core::dtype::f32));
  auto plan = models::tp_plan_of(table, split);
  formats::parameter_cuts out;
  for (size_t q = 0; q < plan.parameters.size(); ++q)
    out.emplace(table.parameters[q].name, std::move(plan.parameters[q]));
  return out;
}

namespace {

/// If the model's keys tie the head to the embedding but the checkpoint has different values for the head, makes the
/// head a parameter of its own, and changes the keys accordingly.
core::result<void> settle_head(const source_arguments& a, described_checkpoint& c) {
  if (!c.model.tied_embedding || is_ignored(c.model, tie_key)) return {};
  TROUPE_ASSIGN(auto settled, formats::settle_tied_head(std::move(c.source), c.model.model_type));
  c.source = std::move(settled.source);
  if (settled.own_values.empty()) return {};
  note(a, "warning: " + settled.own_values);
  auto keys = parsed(c.model.json);
  keys[tie_key] = false;
  c.model.json = keys.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  c.model.tied_embedding = false;
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
    uint64_t out = 0;
    const auto rest = name.substr(before.size());
    const auto [end, bad] = std::from_chars(rest.data(), rest.data() + rest.size(), out);
    if (bad == std::errc() && end != rest.data() + rest.size() && *end == '.') return out;
  }
  return std::nullopt;
}

/// Compares the embedding's shape and the number of layers with the config.json of an unknown family.
core::result<void> check_unknown_family(const described_checkpoint& c) {
  const auto is_of_gguf = [](const auto& t) { return t.name == "token_embd.weight" || t.name.starts_with("blk."); };
  if (std::ranges::any_of(c.source.tensors, is_of_gguf)) return fail(no_description_of(c.source));
  const auto keys = parsed(c.model.json);
  const auto size = [&](const char* key) {
    const auto at = keys.is_object() ? keys.find(key) : keys.end();
    return keys.is_object() && at != keys.end() && at->is_number_unsigned() ? std::optional(at->get<int64_t>())
                                                                            : std::nullopt;
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

void note_unclean(const source_arguments& a, const formats::tensor_source& s) {
  const auto job = own_configuration(s);
  if (!job) return;
  const auto techniques = techniques_after(s.run.applied_updates.value_or(0), job->compression);
  if (techniques.empty()) return;
  note(a, fmt::format("warning: '{}': its run computes with {}, and the weights are written without: `troupe compress` "
                      "with --clean writes masks and grids into them",
                      formats::shown_place(s), fmt::join(techniques, ", ")));
}

core::result<described_checkpoint> open_described(const source_arguments& a, const fs::path& model_config) {
  TROUPE_ASSIGN(auto source, open_checkpoint_at(a, model_config));
  warn_of_left_out(a, source);
  TROUPE_ASSIGN(auto model, describe_model(source, model_config, a.ignored_keys));
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

core::result<void> check_given_description(const source_arguments& a, formats::tensor_source s,
                                           model_description model) {
  if (const auto sizes = models::parse_model_sizes(model.json, model.ignored_keys); !sizes)
    return fail(sizes.error().in("--model-config"));
  TROUPE_ASSIGN(auto single, formats::without_further_names(std::move(s), parameters_of(model)));
  described_checkpoint c{std::move(single.source), std::move(model)};
  TROUPE_TRY(settle_head(a, c));
  return check_parameters(c);
}

core::result<void> write_description(const model_description& m, const fs::path& folder) {
  if (m.json.empty()) return {};
  auto keys = parsed(m.json);
  const bool any = erase_gguf_keys(keys, m.model_type);
  return storage::write_file_atomically(folder / description_name, any ? keys.dump(2) + "\n" : m.json);
}

std::optional<std::string> exported_name(const described_checkpoint& c, const std::string& name) {
  const bool is_tied = std::ranges::any_of(c.source.tied, [&](const auto& t) { return t.name == name; });
  if ((c.model.tied_embedding && is_tied) || name == formats::gguf_rope_factors_name) return std::nullopt;
  return formats::hugging_face_name(c.model.model_type, name);
}

std::string hugging_face_config(const model_description& m, core::dtype type) {
  auto keys = parsed(m.json);
  if (!keys.is_object()) keys = json::object();
  if (!keys.contains("architectures")) {
    if (const auto* f = families::find(m.model_type)) keys["architectures"] = json::array({f->architecture});
  }
  // Removed, because it describes compressed weights, and the written weights are not compressed
  keys.erase("quantization_config");
  keys.erase("torch_dtype");  // name of `dtype` before transformers 4.56
  erase_gguf_keys(keys, m.model_type);
  keys["dtype"] = type == core::dtype::f32 ? "float32" : type == core::dtype::bf16 ? "bfloat16" : "float16";
  return keys.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::map<std::string, std::string> shared_names(const model_description& m, const formats::tensor_source& s) {
  if (!m.tied_embedding) return {};
  std::vector<std::string> names;
  for (const auto& t : s.tensors) names.push_back(formats::hugging_face_name(m.model_type, t.name));
  for (const auto& t : s.tied) names.push_back(formats::hugging_face_name(m.model_type, t.name));
  std::map<std::string, std::string> out;
  for (const auto& t : formats::hugging_face_tied(m.model_type, names))
    if (std::find(names.begin(), names.end(), t.name) == names.end()) out.emplace(t.name, t.of);
  const bool has_head = std::ranges::any_of(
      names, [](const std::string& name) { return formats::bare_name(name) == formats::head_name; });
  if (!out.empty() || has_head) return out;
  // Tries the embedding names of all known families, which models of other families often use, too.
  for (const auto* f : families::all) {
    const auto name = std::string(f->names.prefix).append(families::embedding_weight(*f));
    if (std::ranges::find(names, name) != names.end()) out.emplace(formats::head_name, name);
  }
  return out;
}

std::optional<config::job_config> own_configuration(const formats::tensor_source& s) {
  if (s.run.config.empty()) return std::nullopt;
  config::load_options options;
  options.read_as = config::reading::either;
  const std::string name = s.run.config.starts_with('{') ? "config.json" : "config.yaml";
  const auto c = config::load_text(s.run.config, name, s.folder, options);
  if (!c || std::ranges::none_of(c->given, [](const std::string& k) { return k.starts_with("data"); }))
    return std::nullopt;
  return c->config;
}

}  // namespace troupe::apps
