#include "apps/checkpoint/model_description.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/load.hpp"
#include "core/json_text.hpp"
#include "core/text.hpp"
#include "families/all_families.hpp"
#include "formats/gguf/source.hpp"
#include "formats/names/name_map.hpp"
#include "models/table/config_keys.hpp"
#include "models/table/model_spec.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr const char* description_name = "config.json";
constexpr const char* tie_key = "tie_word_embeddings";
/// Model types outside of families/ whose head shares the embedding's weight even if config.json does not contain the
/// key `tie_word_embeddings`, because save_pretrained() omits keys with default values.
constexpr std::array<std::string_view, 2> tied_types{"gemma", "gpt_neo"};

json parsed(const std::string& text) {
  auto out = core::parse_json<json>(text, max_description_depth);
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
  const auto whole = core::parse_json<json>(text, max_description_depth);
  if (!whole || !whole->is_object())
    return fail(error_kind::bad_input, fmt::format("{}: wanted a JSON object as Hugging Face's config.json{}", where,
                                                   whole ? std::string() : ": " + whole.error().why));
  const auto& keys = *whole;
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
  if (out) out->json = models::with_null_padding(out->json, ignored_keys);
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
    return {error_kind::bad_input,
            fmt::format(
                "'{}' has the architecture {}, which is not known here{}: use the Hugging Face folder of the model "
                "from which it was made",
                s.files.front().path.string(), core::shown(architecture), families::nearest_gguf_note(architecture))};
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

bool ties_head(const model_description& m) {
  return m.tied_embedding && std::ranges::find(m.ignored_keys, tie_key) == m.ignored_keys.end();
}

void untie_head(model_description& m) {
  m.json = models::with_untied_head(m.json) + "\n";
  m.tied_embedding = false;
}

core::result<void> write_description(const model_description& m, const fs::path& folder) {
  if (m.json.empty()) return {};
  auto keys = parsed(m.json);
  const bool any = erase_gguf_keys(keys, m.model_type);
  return storage::write_file_atomically(folder / description_name, any ? keys.dump(2) + "\n" : m.json);
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
    if (std::ranges::find(names, name) != names.end()) out.emplace(families::head_weight(*f), name);
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
