// Reads Hugging Face's config.json keys into a model_spec. Every size is bounded in this file, so that products of
// sizes fit 64 bits everywhere else.
#include "models/table/model_spec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/json_text.hpp"
#include "core/lfs_pointer.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "models/table/config_keys.hpp"
#include "models/table/model_folder.hpp"

namespace troupe::models {
namespace {

using json = nlohmann::json;
using core::error_kind;

// Limits that no known model comes near; they keep every product of sizes inside 64 bits.
constexpr uint64_t layers_max = 4096;
constexpr uint64_t width_max = uint64_t{1} << 18;
constexpr uint64_t inner_max = uint64_t{1} << 20;
constexpr uint64_t positions_max = uint64_t{1} << 24;
constexpr uint64_t vocabulary_max = uint64_t{1} << 24;
constexpr uint64_t config_bytes_max = uint64_t{16} << 20;

/// Keys that determine parameters' names and shapes.
constexpr std::array<std::string_view, 16> size_keys{
    "n_layer",          "n_embd",      "n_head",        "n_inner",           "n_positions",         "vocab_size",
    "hidden_size",      "head_dim",    "mlp_bias",      "intermediate_size", "num_hidden_layers",   "attention_bias",
    "num_attention_heads", "num_key_value_heads", "max_position_embeddings", "tie_word_embeddings"};

/// Reads keys of one object, by their own names or transformers' aliases, and collects its errors.
class key_reader {
 public:
  explicit key_reader(const json& object, std::optional<family> kind = {}) : object_(object), kind_(kind) {}
  void set_family(family kind) { kind_ = kind; }

  /// Returns a whole number in [1, max]; `fallback` if the key is absent or null.
  uint32_t size(const char* key, uint64_t fallback, uint64_t max) {
    const json* v = find(key);
    if (v == nullptr) return static_cast<uint32_t>(fallback);
    if (!v->is_number_unsigned() || v->get<uint64_t>() < 1 || v->get<uint64_t>() > max) {
      refuse(key, "a whole number from 1 to " + std::to_string(max), *v);
      return 1;
    }
    return static_cast<uint32_t>(v->get<uint64_t>());
  }

  /// Returns a number in [low, high); `fallback` if the key is absent.
  double number(const char* key, double fallback, double low, double high) {
    const json* v = find(key);
    if (v == nullptr) return fallback;
    if (!v->is_number() || !(v->get<double>() >= low && v->get<double>() < high)) {
      refuse(key, "a number from " + json(low).dump() + " to below " + json(high).dump(), *v);
      return fallback;
    }
    return v->get<double>();
  }

  float probability(const char* key, double fallback) { return static_cast<float>(number(key, fallback, 0.0, 1.0)); }

  bool flag(const char* key, bool fallback) {
    const json* v = find(key);
    if (v == nullptr) return fallback;
    if (!v->is_boolean()) {
      refuse(key, "true or false", *v);
      return fallback;
    }
    return v->get<bool>();
  }

  std::string text(const char* key, const std::string& fallback) {
    const json* v = find(key);
    if (v == nullptr) return fallback;
    if (!v->is_string()) {
      refuse(key, "a text", *v);
      return fallback;
    }
    return v->get<std::string>();
  }

  /// Accepts only `wanted`, for keys that change the arithmetic in an unsupported way.
  void only(const char* key, bool wanted) {
    if (flag(key, wanted) != wanted) refuse(key, wanted ? "true" : "false", object_.at(key));
  }

  void refuse(const char* key, const std::string& wanted, const json& got) {
    std::string shown = got.dump(-1, ' ', false, json::error_handler_t::replace);
    if (shown.size() > 80) shown = shown.substr(0, 77) + "...";
    wrong(key, "model key '" + given_name(key) + "' wants " + wanted + ", got " + shown);
  }
  void wrong(std::string key, std::string text) {
    const bool of_sizes = std::ranges::find(size_keys, key) != size_keys.end();
    problems_.push_back({std::move(key), {error_kind::bad_input, std::move(text)}, of_sizes});
  }
  const json* find(const char* key) {
    asked_.insert(key);
    const json* own = value_of(key);
    const std::string alias = kind_ ? std::string(alias_of(*kind_, key)) : std::string();
    if (alias.empty()) return own;
    asked_.insert(alias);
    const json* other = value_of(alias);
    if (own != nullptr && other != nullptr && *own != *other && !refused(key))
      wrong(key, std::string("model keys '") + key + "' and '" + alias + "' are two names of one size, got " +
                     own->dump() + " and " + other->dump());
    return own != nullptr ? own : other;
  }
  /// Returns the keys of the object that were not read.
  [[nodiscard]] std::vector<std::string> unread() const {
    std::vector<std::string> out;
    for (const auto& [key, value] : object_.items())
      if (!asked_.contains(key)) out.push_back(key);
    return out;
  }
  void add(std::vector<spec_problem> more) {
    problems_.insert(problems_.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
  }
  [[nodiscard]] bool refused(const char* key) const {
    return std::any_of(problems_.begin(), problems_.end(), [key](const spec_problem& p) { return p.key == key; });
  }
  [[nodiscard]] const std::vector<spec_problem>& problems() const { return problems_; }

 private:
  [[nodiscard]] const json* value_of(const std::string& key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  [[nodiscard]] std::string given_name(const char* key) const {
    const std::string alias = kind_ ? std::string(alias_of(*kind_, key)) : std::string();
    return value_of(key) == nullptr && !alias.empty() && value_of(alias) != nullptr ? alias : std::string(key);
  }

  const json& object_;
  std::optional<family> kind_;
  std::set<std::string, std::less<>> asked_;
  std::vector<spec_problem> problems_;
};

/// Returns the object in `text`; drops everything nested deeper than the limit, so that no later walk of it runs out of
/// stack.
core::result<json> parse_object(const std::string& text) {
  if (text.size() > max_model_keys_bytes)
    return core::fail(error_kind::limit, "the model's keys want at most " + std::to_string(max_model_keys_bytes) +
                                             " bytes, got " + std::to_string(text.size()));
  std::vector<std::set<std::string>> open_objects;
  std::string repeated;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open_objects.back().insert(key).second && repeated.empty()) repeated = key;
    }
    return true;
  };
  auto object = core::parse_json(text, max_model_keys_depth, watch);
  if (!object && object.error().kind == error_kind::limit)
    return core::fail(error_kind::limit, "the model's keys: " + object.error().why);
  if (!object || !object->is_object()) return core::fail(error_kind::bad_input, "the model's keys want a JSON object");
  if (!repeated.empty())
    return core::fail(error_kind::bad_input, "model key '" + repeated.substr(0, 80) + "' is there twice");
  return std::move(*object);
}

activation read_activation(key_reader& keys, const char* key, const char* fallback) {
  const std::string name = keys.text(key, fallback);
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return activation::gelu_tanh;
  if (name == "gelu") return activation::gelu_exact;
  if (name == "silu" || name == "swish") return activation::silu;
  if (name == "relu") return activation::relu;
  keys.refuse(key, "one of gelu_new, gelu_pytorch_tanh, gelu, silu, swish, relu", name);
  return activation::gelu_tanh;
}

void read_gpt2(key_reader& keys, model_spec& spec) {
  spec.kind = family::gpt2;
  spec.layers = keys.size("n_layer", 12, layers_max);
  spec.width = keys.size("n_embd", 768, width_max);
  spec.heads = keys.size("n_head", 12, width_max);
  spec.kv_heads = spec.heads;
  spec.inner = keys.size("n_inner", uint64_t{4} * spec.width, inner_max);
  spec.positions = keys.size("n_positions", 1024, positions_max);
  spec.vocabulary = keys.size("vocab_size", 50257, vocabulary_max);
  spec.act = read_activation(keys, "activation_function", "gelu_new");
  spec.tied = keys.flag("tie_word_embeddings", true);
  spec.norm_epsilon = keys.number("layer_norm_epsilon", 1e-5, 0.0, 1.0);
  spec.initializer_range = keys.number("initializer_range", 0.02, 0.0, 1e3);
  spec.embedding_dropout = keys.probability("embd_pdrop", 0.1);
  spec.attention_dropout = keys.probability("attn_pdrop", 0.1);
  spec.residual_dropout = keys.probability("resid_pdrop", 0.1);
  keys.only("scale_attn_weights", true);
  keys.only("scale_attn_by_inverse_layer_idx", false);
  keys.only("add_cross_attention", false);
  if (spec.width % spec.heads != 0 && !keys.refused("n_embd") && !keys.refused("n_head"))
    keys.wrong("n_head", "model key 'n_head' wants a divisor of n_embd " + std::to_string(spec.width) + ", got " +
                             std::to_string(spec.heads));
  spec.head_width = spec.width / spec.heads;
}

/// Reads the rotary base, from the flat key of older files or the `rope_parameters` object of newer ones.
void read_rotary(key_reader& keys, model_spec& spec) {
  spec.rope_theta = keys.number("rope_theta", 10000.0, 1.0, 1e12);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const json* object = keys.find(name);
    if (object == nullptr) continue;
    if (!object->is_object()) {
      keys.refuse(name, "an object", *object);
      continue;
    }
    key_reader inner(*object);
    const std::string type = inner.text("rope_type", inner.text("type", "default"));
    if (type != "default") inner.refuse("rope_type", "\"default\"", type);
    spec.rope_theta = inner.number("rope_theta", spec.rope_theta, 1.0, 1e12);
    if (type == "default") inner.add(unread_rotary_problems(name, *object, inner.unread()));
    for (const spec_problem& p : inner.problems()) keys.wrong(name, p.what.text + ", in '" + name + "'");
  }
}

void read_llama(key_reader& keys, model_spec& spec) {
  spec.kind = family::llama;
  spec.layers = keys.size("num_hidden_layers", 32, layers_max);
  spec.width = keys.size("hidden_size", 4096, width_max);
  spec.heads = keys.size("num_attention_heads", 32, width_max);
  spec.kv_heads = keys.size("num_key_value_heads", spec.heads, width_max);
  spec.inner = keys.size("intermediate_size", 11008, inner_max);
  spec.positions = keys.size("max_position_embeddings", 2048, positions_max);
  spec.vocabulary = keys.size("vocab_size", 32000, vocabulary_max);
  spec.act = read_activation(keys, "hidden_act", "silu");
  spec.tied = keys.flag("tie_word_embeddings", false);
  spec.attention_bias = keys.flag("attention_bias", false);
  spec.mlp_bias = keys.flag("mlp_bias", false);
  spec.norm_epsilon = keys.number("rms_norm_eps", 1e-6, 0.0, 1.0);
  spec.initializer_range = keys.number("initializer_range", 0.02, 0.0, 1e3);
  spec.attention_dropout = keys.probability("attention_dropout", 0.0);
  read_rotary(keys, spec);
  if (keys.find("head_dim") != nullptr) {
    spec.head_width = keys.size("head_dim", 1, width_max);
  } else {
    if (spec.width % spec.heads != 0 && !keys.refused("hidden_size") && !keys.refused("num_attention_heads"))
      keys.wrong("num_attention_heads", "model key 'num_attention_heads' wants a divisor of hidden_size " +
                                            std::to_string(spec.width) + ", got " + std::to_string(spec.heads));
    spec.head_width = spec.width / spec.heads;
  }
  if (!keys.problems().empty()) return;  // the checks after this line combine the read keys
  if (spec.head_width % 2 != 0)
    keys.wrong("num_attention_heads",
               "rotary positions want an even head width, got " + std::to_string(spec.head_width));
  if (uint64_t{spec.heads} * spec.head_width > width_max)
    keys.wrong("num_attention_heads", "model keys 'num_attention_heads' x 'head_dim' want at most " +
                                          std::to_string(width_max) + ", got " +
                                          std::to_string(uint64_t{spec.heads} * spec.head_width));
  if (spec.heads % spec.kv_heads != 0)
    keys.wrong("num_key_value_heads", "model key 'num_key_value_heads' wants a divisor of num_attention_heads " +
                                          std::to_string(spec.heads) + ", got " + std::to_string(spec.kv_heads));
}

/// A spec, and all errors in its keys.
struct reading {
  model_spec spec;
  bool has_family = false;
  std::vector<spec_problem> problems;
  std::vector<std::string> unknown;  ///< names of keys that no table has
};

/// Returns the object that holds the key `name`, and its name there: `rope_scaling.factor` is `factor` of an object
/// within, if `object` has no key of the whole name. Null if no object has it.
std::pair<json*, std::string> holder_of(json& object, const std::string& name) {
  if (object.contains(name)) return {&object, name};
  const auto dot = name.find('.');
  const auto inner = dot == name.npos ? object.end() : object.find(name.substr(0, dot));
  if (inner == object.end() || !inner->is_object() || !inner->contains(name.substr(dot + 1))) return {};
  return {&*inner, name.substr(dot + 1)};
}

reading read_all(const std::string& hugging_face_json, std::span<const std::string> ignored) {
  reading out;
  auto object = parse_object(hugging_face_json);
  if (!object) {
    out.problems.push_back({"", object.error(), true});
    return out;
  }
  out.spec.hugging_face_json = object->dump(2, ' ', false, json::error_handler_t::replace);
  for (const auto& key : ignored)
    if (const auto [holder, name] = holder_of(*object, key); holder != nullptr) holder->erase(name);
  key_reader keys(*object);
  const std::string type = keys.text("model_type", "");
  out.has_family = type == "gpt2" || type == "llama";
  if (out.has_family) {
    const family kind = type == "gpt2" ? family::gpt2 : family::llama;
    keys.set_family(kind);
    if (kind == family::gpt2)
      read_gpt2(keys, out.spec);
    else
      read_llama(keys, out.spec);
    keys.add(unread_problems(kind, *object, keys.unread()));
    out.unknown = unknown_names(kind, *object, keys.unread());
  } else if (keys.problems().empty()) {
    keys.wrong("model_type", "model key 'model_type' wants gpt2 or llama, got " +
                                 (type.empty() ? std::string("nothing") : "'" + type + "'"));
  }
  out.problems = keys.problems();
  return out;
}

}  // namespace

core::result<model_spec> parse_model_spec(const std::string& hugging_face_json, std::span<const std::string> ignored) {
  reading read = read_all(hugging_face_json, ignored);
  if (!read.problems.empty()) return core::fail(std::move(read.problems.front().what));
  return std::move(read.spec);
}

core::result<std::optional<model_spec>> parse_model_sizes(const std::string& hugging_face_json,
                                                          std::span<const std::string> ignored) {
  reading read = read_all(hugging_face_json, ignored);
  for (const auto& p : read.problems)
    if (p.of_sizes) return core::fail(p.what);
  if (!read.has_family) return std::nullopt;
  return std::move(read.spec);
}

core::result<model_spec> read_spec(const std::filesystem::path& folder, std::span<const std::string> ignored) {
  const auto path = folder_of(folder) / "config.json";
  const auto text = core::read_file(path, config_bytes_max);
  std::error_code absent;
  if (!text && std::filesystem::exists(path.parent_path() / "adapter_config.json", absent))
    return core::fail(core::error_kind::bad_input, "'" + path.parent_path().string() +
                                                       "' holds an adapter of PEFT's and no whole model: merge it into "
                                                       "its base model first");
  if (!text) return core::fail(text.error());
  if (core::begins_like_lfs_pointer(*text)) return core::fail(core::lfs_pointer_error(path.string(), *text));
  auto spec = parse_model_spec(*text, ignored);
  if (!spec) return core::fail(spec.error().in(std::string(1, '\'').append(path.string()).append("'")));
  return spec;
}

std::optional<std::string> absent_key(const std::string& hugging_face_json, std::span<const std::string> ignored) {
  auto object = parse_object(hugging_face_json);
  if (!object) return std::nullopt;
  const auto absent =
      std::ranges::find_if(ignored, [&](const std::string& key) { return holder_of(*object, key).first == nullptr; });
  if (absent == ignored.end()) return std::nullopt;
  std::string out = "has no key '" + core::shown(*absent) + "' to pass over";
  const reading read = read_all(hugging_face_json, {});
  if (!read.has_family) return out;
  if (read.unknown.empty()) return out + "; all of its keys are known here";
  out += "; its keys that are not known here:";
  constexpr size_t shown_max = 5;
  for (size_t i = 0; i < std::min(read.unknown.size(), shown_max); ++i)
    out += (i == 0 ? " '" : ", '") + core::shown(read.unknown[i]) + "'";
  return read.unknown.size() > shown_max ? out + ", ..." : out;
}

bool is_known_key(family kind, const std::string& key) {
  json object{{key, nullptr}};
  object["model_type"] = kind == family::gpt2 ? "gpt2" : "llama";
  return read_all(object.dump(-1, ' ', false, json::error_handler_t::replace), {}).unknown.empty();
}

std::vector<spec_problem> problems_of(const std::string& hugging_face_json, std::span<const std::string> ignored) {
  return read_all(hugging_face_json, ignored).problems;
}

}  // namespace troupe::models
