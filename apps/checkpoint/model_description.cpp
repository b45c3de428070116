#include "apps/checkpoint/model_description.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/files/atomic_file.hpp"
#include "checkpoint/files/file_system.hpp"
#include "checkpoint/source/name_map.hpp"
#include "config/load.hpp"
#include "core/json_text.hpp"
#include "job/compression/mask_scores.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;
using json = nlohmann::ordered_json;

constexpr size_t max_depth = 64;
constexpr const char* description_name = "config.json";
/// Types whose head shares the embedding's weight where config.json does not say: save_pretrained() leaves defaults
/// out.
constexpr std::array<std::string_view, 5> tied_types{"gpt2", "gemma", "gemma2", "gemma3_text", "gpt_neo"};
/// What families that are not known here call the embedding, with head_name for the head.
constexpr std::array<std::string_view, 2> embedding_names{"model.embed_tokens.weight", "transformer.wte.weight"};

json parsed(const std::string& text) {
  auto out = core::parse_json<json>(text, max_depth);
  return out ? std::move(*out) : json();
}

core::result<model_description> from_text(const std::string& text, const std::string& where) {
  const auto keys = parsed(text);
  if (!keys.is_object())
    return fail(error_kind::bad_input, fmt::format("{}: wanted a JSON object as Hugging Face's config.json", where));
  model_description out;
  out.json = text;
  if (keys.contains("model_type") && keys["model_type"].is_string()) out.model_type = keys["model_type"];
  const auto tied = keys.find("tie_word_embeddings");
  out.tied_embedding = tied != keys.end() && tied->is_boolean()
                           ? tied->get<bool>()
                           : std::ranges::find(tied_types, out.model_type) != tied_types.end();
  return out;
}

core::result<model_description> from_file(const fs::path& file) {
  const auto text = checkpoint::read_small_file(checkpoint::real_files(), file, max_description_bytes);
  if (!text) return fail(text.error());
  return from_text(*text, fmt::format("'{}'", file.string()));
}

}  // namespace

core::result<model_description> describe_model(const checkpoint::tensor_source& s, const fs::path& file) {
  if (!file.empty()) return from_file(file);
  if (s.run.model.starts_with('{'))
    return from_text(s.run.model, fmt::format("the model of '{}'", checkpoint::shown_place(s)));
  for (const auto& path : {fs::path(s.run.model), s.folder}) {
    std::error_code e;
    if (!path.empty() && fs::is_regular_file(path / description_name, e)) return from_file(path / description_name);
  }
  return model_description{};
}

std::vector<checkpoint::wanted_tensor> parameters_of(const model_description& m) {
  const auto spec = models::parse_model_spec(m.json);
  if (!spec) return {};
  std::vector<checkpoint::wanted_tensor> out;
  for (auto& p : models::make_model_table(*spec, 1, 1, core::size_of(core::dtype::f32)).parameters)
    out.push_back({std::move(p.name), std::move(p.shape)});
  return out;
}

checkpoint::parameter_cuts cuts_of(const model_description& m, uint32_t ranks) {
  const auto spec = models::parse_model_spec(m.json);
  const models::tensor_split split{.degree = ranks};
  if (ranks < 2 || !spec || !models::check_split(*spec, split)) return {};
  const auto table = models::make_model_table(*spec, 1, 1, core::size_of(core::dtype::f32));
  auto plan = models::tp_plan_of(table, split);
  checkpoint::parameter_cuts out;
  for (size_t q = 0; q < plan.parameters.size(); ++q)
    out.emplace(table.parameters[q].name, std::move(plan.parameters[q]));
  return out;
}

core::result<described_checkpoint> open_described(const source_arguments& a, const fs::path& model_config) {
  auto source = open_checkpoint_at(a, model_config);
  if (!source) return fail(source.error());
  warn_of_left_out(a, *source);
  auto model = describe_model(*source, model_config);
  if (!model) return fail(model.error());
  auto named = checkpoint::named_by_layers(std::move(*source), parameters_of(*model));
  if (!named) return fail(named.error());
  return described_checkpoint{std::move(*named), std::move(*model)};
}

core::result<void> check_names(const described_checkpoint& c) {
  const auto wanted = parameters_of(c.model);
  if (wanted.empty()) {
    if (!c.source.has_layer_names) return {};
    return tl::unexpected(checkpoint::unnamed_layers(c.source, wanted));
  }
  std::vector<std::string> names;
  for (const auto& w : wanted) names.push_back(w.name);
  const auto strangers = checkpoint::name_map(c.source).unexpected(names);
  if (strangers.empty()) return {};
  if (c.source.has_layer_names) return tl::unexpected(checkpoint::unnamed_layers(c.source, wanted));
  if (std::ranges::all_of(strangers, [](const std::string& name) { return job::is_score_name(name); }))
    return fail(error_kind::mismatch,
                fmt::format("'{}' holds scores of masks that its run learns, as {}, and nothing else knows them: "
                            "`troupe compress` with --clean makes the masks permanent",
                            checkpoint::shown_place(c.source), checkpoint::first_names(strangers)));
  return fail(error_kind::mismatch,
              fmt::format("'{}' holds {} parameters that its model has not, as {}: wanted {}; a file of names (--map) "
                          "says which is which",
                          checkpoint::shown_place(c.source), strangers.size(), checkpoint::first_names(strangers),
                          checkpoint::first_names(names)));
}

core::result<void> write_description(const model_description& m, const fs::path& folder) {
  if (m.json.empty()) return {};
  return checkpoint::write_file_atomically(folder / description_name, m.json);
}

std::string hugging_face_config(const model_description& m, core::dtype type) {
  auto keys = parsed(m.json);
  if (!keys.is_object()) keys = json::object();
  if (!keys.contains("architectures")) {
    if (m.model_type == "gpt2") keys["architectures"] = {"GPT2LMHeadModel"};
    if (m.model_type == "llama") keys["architectures"] = {"LlamaForCausalLM"};
  }
  keys.erase("quantization_config");  // of a source whose weights were compressed
  keys.erase("torch_dtype");          // its name before transformers 4.56
  keys["dtype"] = type == core::dtype::f32 ? "float32" : type == core::dtype::bf16 ? "bfloat16" : "float16";
  return keys.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::map<std::string, std::string> shared_names(const model_description& m, const checkpoint::tensor_source& s) {
  if (!m.tied_embedding) return {};
  std::vector<std::string> names;
  for (const auto& t : s.tensors) names.push_back(checkpoint::hugging_face_name(m.model_type, t.name));
  for (const auto& t : s.tied) names.push_back(checkpoint::hugging_face_name(m.model_type, t.name));
  std::map<std::string, std::string> out;
  for (const auto& t : checkpoint::hugging_face_tied(m.model_type, names))
    if (std::find(names.begin(), names.end(), t.name) == names.end()) out.emplace(t.name, t.of);
  const bool has_head = std::ranges::any_of(
      names, [](const std::string& name) { return checkpoint::bare_name(name) == checkpoint::head_name; });
  if (!out.empty() || has_head) return out;
  for (const auto name : embedding_names)
    if (std::ranges::find(names, name) != names.end()) out.emplace(checkpoint::head_name, name);
  return out;
}

std::optional<config::job_config> own_configuration(const checkpoint::tensor_source& s) {
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
