#include "apps/model_description.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/name_map.hpp"
#include "checkpoint/native_files.hpp"
#include "core/json_text.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;
using json = nlohmann::ordered_json;

constexpr size_t max_depth = 64;

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
  // transformers' default is that of the model's type
  out.tied_embedding = tied != keys.end() && tied->is_boolean() ? tied->get<bool>() : out.model_type == "gpt2";
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
  if (s.run.model.starts_with('{')) return from_text(s.run.model, fmt::format("the model of '{}'", s.folder.string()));
  for (const auto& path : {fs::path(s.run.model), s.folder}) {
    std::error_code e;
    if (!path.empty() && fs::is_regular_file(path / "config.json", e)) return from_file(path / "config.json");
  }
  return model_description{};
}

std::string hugging_face_config(const model_description& m, core::dtype type) {
  auto keys = parsed(m.json);
  if (!keys.is_object()) keys = json::object();
  if (!keys.contains("architectures")) {
    if (m.model_type == "gpt2") keys["architectures"] = {"GPT2LMHeadModel"};
    if (m.model_type == "llama") keys["architectures"] = {"LlamaForCausalLM"};
  }
  keys.erase("torch_dtype");  // its name before transformers 4.56
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
  return out;
}

}  // namespace troupe::apps
