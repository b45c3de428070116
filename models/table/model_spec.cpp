// Reads the keys of Hugging Face's config.json into a model_spec. All sizes are limited here, so that other code may
// multiply them without overflow of 64 bits.
#include "models/table/model_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/json_text.hpp"
#include "core/lfs_pointer.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "models/table/config_keys.hpp"
#include "models/table/model_folder.hpp"

namespace troupe::models {
namespace {

using json = nlohmann::json;

// Largest sizes that are accepted. No known model comes near them; they keep products of sizes below 2^64.
constexpr uint64_t layers_max = 4096;
constexpr uint64_t width_max = uint64_t{1} << 18;
constexpr uint64_t inner_max = uint64_t{1} << 20;
constexpr uint64_t positions_max = uint64_t{1} << 24;
constexpr uint64_t vocabulary_max = uint64_t{1} << 24;
constexpr double rope_factor_max = 1e6;
constexpr double least_factor = 1e-6, factor_max = 1e6;
constexpr uint64_t config_bytes_max = uint64_t{16} << 20;

/// Reads the keys of one JSON object, by their own names or transformers' aliases, and collects the errors in them.
class key_reader {
 public:
  explicit key_reader(const json& object) : object_(object) {}
  void set_family(const families::family& family) { family_ = &family; }

  /// Returns the key's value, a whole number in [least, max]; `fallback` if the key is absent or null. Reports an error
  /// for other values.
  uint32_t size(std::string_view key, uint64_t fallback, uint64_t max, uint64_t least = 1) {
    const json* v = find(key);
    if (v == nullptr) return static_cast<uint32_t>(fallback);
    if (!v->is_number_unsigned() || v->get<uint64_t>() < least || v->get<uint64_t>() > max) {
      refuse(key, fmt::format("a whole number from {} to {}", least, max), *v);
      return 1;
    }
    return static_cast<uint32_t>(v->get<uint64_t>());
  }

  /// Returns the key's value, a number in [low, high); `fallback` if the key is absent or null. Reports an error for
  /// other values.
  double number(std::string_view key, double fallback, double low, double high) {
    const json* v = find(key);
    if (v == nullptr) return fallback;
    if (!v->is_number() || !(v->get<double>() >= low && v->get<double>() < high)) {
      refuse(key, "a number from " + json(low).dump() + " to below " + json(high).dump(), *v);
      return fallback;
    }
    return v->get<double>();
  }

  float probability(std::string_view key, double fallback) {
    return static_cast<float>(number(key, fallback, 0.0, 1.0));
  }

  bool flag(std::string_view key, bool fallback) {
    const json* v = find(key);
    if (v == nullptr) return fallback;
    if (!v->is_boolean()) {
      refuse(key, "true or false", *v);
      return fallback;
    }
    return v->get<bool>();
  }

  std::string text(std::string_view key, const std::string& fallback) {
    const json* v = find(key);
    if (v == nullptr) return fallback;
    if (!v->is_string()) {
      refuse(key, "a text", *v);
      return fallback;
    }
    return v->get<std::string>();
  }

  /// Reports an error unless the boolean key is absent or has the value `wanted`. Used for keys whose other value would
  /// change the arithmetic in a way that Troupe does not support.
  void only(std::string_view key, bool wanted) {
    if (flag(key, wanted) != wanted) refuse(key, wanted ? "true" : "false", object_.at(std::string(key)));
  }

  void refuse(std::string_view key, const std::string& wanted, const json& got) {
    wrong(std::string(key), "model key '" + given_name(key) + "': wanted " + wanted + ", got " + json_shown(got));
  }
  void wrong(std::string key, std::string text) {
    const bool of_sizes = families::is_size_key(key);
    problems_.push_back({std::move(key), {error_kind::bad_input, std::move(text)}, of_sizes});
  }
  [[nodiscard]] bool has(std::string_view key) const { return object_.contains(std::string(key)); }
  /// True if the object has the key with the value null.
  [[nodiscard]] bool is_null(std::string_view key) const {
    const auto it = object_.find(std::string(key));
    return it != object_.end() && it->is_null();
  }
  /// Reports an error if the key is given as null. Used for keys whose default applies only if the key is absent: with
  /// null, transformers fails when it computes.
  void refuse_null(std::string_view key, const std::string& wanted) {
    if (!key.empty() && is_null(key)) refuse(key, wanted, json());
  }
  const json* find(std::string_view key) {
    asked_.emplace(key);
    const json* own = value_of(std::string(key));
    const std::string alias = alias_of(key);
    if (alias.empty()) return own;
    asked_.insert(alias);
    const json* other = value_of(alias);
    if (own != nullptr && other != nullptr && *own != *other && !refused(key))
      wrong(std::string(key), "model keys '" + std::string(key) + "' and '" + alias +
                                  "' are two names of one size, got " + own->dump() + " and " + other->dump());
    return own != nullptr ? own : other;
  }
  /// Returns the keys of the object that no function of this reader has been asked for.
  [[nodiscard]] std::vector<std::string> unread() const {
    std::vector<std::string> out;
    for (const auto& [key, value] : object_.items())
      if (!asked_.contains(key)) out.push_back(key);
    return out;
  }
  void add(std::vector<spec_problem> more) {
    problems_.insert(problems_.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
  }
  [[nodiscard]] bool refused(std::string_view key) const {
    return std::any_of(problems_.begin(), problems_.end(), [key](const spec_problem& p) { return p.key == key; });
  }
  [[nodiscard]] const std::vector<spec_problem>& problems() const { return problems_; }

 private:
  [[nodiscard]] const json* value_of(const std::string& key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  [[nodiscard]] std::string given_name(std::string_view key) const {
    const std::string alias = alias_of(key);
    return value_of(std::string(key)) == nullptr && !alias.empty() && value_of(alias) != nullptr ? alias
                                                                                                 : std::string(key);
  }
  [[nodiscard]] std::string alias_of(std::string_view key) const {
    return family_ == nullptr ? std::string() : std::string(families::alias_of(*family_, key));
  }

  const json& object_;
  const families::family* family_ = nullptr;  // family whose aliases of keys are accepted; null: none are
  std::set<std::string, std::less<>> asked_;
  std::vector<spec_problem> problems_;
};

/// Returns the JSON object in `text`. Errors: a text that is too long, or nested so deeply that code which walks it
/// could run out of stack; repeated keys; text that is no JSON object.
core::result<json> parse_object(const std::string& text) {
  if (text.size() > max_model_keys_bytes)
    return core::fail(error_kind::limit, fmt::format("the model's keys: wanted at most {} bytes, got {}",
                                                     max_model_keys_bytes, text.size()));
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
  if (!object || !object->is_object())
    return core::fail(error_kind::bad_input,
                      "the model's keys: wanted a JSON object" + (object ? std::string() : ": " + object.error().why));
  if (!repeated.empty())
    return core::fail(error_kind::bad_input, "model key '" + core::shown(repeated, 80) + "' is given twice");
  return std::move(*object);
}

activation read_activation(key_reader& keys, std::string_view key, std::string_view fallback) {
  const std::string name = keys.text(key, std::string(fallback));
  if (const auto found = activation_named(name)) return *found;
  const std::string names = activation_names();
  keys.refuse(key, has_parameters(name) ? "a function without parameters of its own, " + names : names, name);
  return activation::gelu_tanh;
}

/// Returns the numbers of the list `key`, each in (0, 1e6); empty if the key is absent. Reports an error for other
/// values.
std::vector<double> read_factors(key_reader& keys, std::string_view key) {
  const json* v = keys.find(key);
  std::vector<double> out;
  if (v == nullptr) return out;
  const auto is_factor = [](const json& f) {
    return f.is_number() && f.get<double>() > 0 && f.get<double>() < rope_factor_max;
  };
  if (!v->is_array() || v->size() > width_max || !std::ranges::all_of(*v, is_factor)) {
    keys.refuse(key, "a list of positive numbers", *v);
    return out;
  }
  for (const json& factor : *v) out.push_back(factor.get<double>());
  return out;
}

/// Reads the keys of `rope_scaling` or `rope_parameters` for its rope_type, which `r` has. `positions` is the model's
/// number of positions. `original`, if above 0, is the number of positions before scaling, from a key outside of the
/// object; it precedes the key inside, as in transformers.
void read_scaling(key_reader& keys, uint32_t positions, uint32_t original, rotary_positions& r) {
  const auto required = [&](std::string_view key, double low) {
    if (keys.find(key) == nullptr)
      keys.wrong(std::string(key),
                 fmt::format("model key '{}': wanted a number for rope_type {}, got nothing", key, name_of(r.type)));
    return keys.number(key, low, low, rope_factor_max);
  };
  constexpr double above_zero = 1e-6;
  if (r.type == rope_type::plain) return;
  keys.refuse_null("partial_rotary_factor", "1");
  const bool may_derive_factor = r.type == rope_type::longrope || r.type == rope_type::yarn;
  if (!may_derive_factor) r.factor = required("factor", 1);
  if (r.type == rope_type::linear || r.type == rope_type::dynamic) return;
  if (original == 0) keys.refuse_null("original_max_position_embeddings", "a whole number");
  r.original_positions = keys.size("original_max_position_embeddings", positions, positions_max);
  if (original > 0) r.original_positions = original;
  if (r.type == rope_type::yarn && !keys.has("factor"))
    keys.wrong("factor", "model key 'factor': wanted a number, or null, for rope_type yarn, got nothing");
  if (may_derive_factor)
    r.factor =
        keys.number("factor", static_cast<double>(positions) / r.original_positions, above_zero, rope_factor_max);
  if (r.type == rope_type::llama3) {
    r.low_frequency_factor = required("low_freq_factor", above_zero);
    r.high_frequency_factor = required("high_freq_factor", above_zero);
    if (keys.problems().empty() && r.high_frequency_factor <= r.low_frequency_factor)
      keys.refuse("high_freq_factor", fmt::format("a number above low_freq_factor {}", r.low_frequency_factor),
                  json(r.high_frequency_factor));
  }
  if (r.type != rope_type::yarn && r.type != rope_type::longrope) return;
  if (keys.find("attention_factor") != nullptr)
    r.attention_factor = keys.number("attention_factor", 1, above_zero, rope_factor_max);
  if (r.type == rope_type::yarn) {
    r.beta_fast = keys.number("beta_fast", 32, above_zero, rope_factor_max);
    r.beta_slow = keys.number("beta_slow", 1, above_zero, rope_factor_max);
    r.mscale = keys.number("mscale", 0, 0, rope_factor_max);
    r.mscale_all_dim = keys.number("mscale_all_dim", 0, 0, rope_factor_max);
    r.truncate = keys.flag("truncate", !keys.is_null("truncate"));  // null counts as false in transformers
    if (r.theta == 1)  // the ramp's dimensions are quotients by the logarithm of the base
      keys.wrong("rope_theta", "model key 'rope_theta': wanted a number above 1 for rope_type yarn, got 1");
    return;
  }
  if (!r.attention_factor && r.factor > 1 && r.original_positions == 1)
    keys.wrong("original_max_position_embeddings",
               "model key 'original_max_position_embeddings': wanted at least 2 for rope_type longrope without "
               "attention_factor, got 1");
  r.short_factors = read_factors(keys, "short_factor");
  r.long_factors = read_factors(keys, "long_factor");
}

/// Reads the part of a head's elements that are rotated; `fallback` if the key is absent or null.
double read_share(key_reader& keys, std::string_view key, double fallback) {
  const double share = keys.number(key, fallback, least_factor, 2);
  if (share <= 1) return share;
  keys.refuse(key, "a number above 0 up to 1", json(share));
  return 1;
}

/// Reads `object`, the value of the key `key` or of `where` inside that value, into `rope`; also reads `share`, the
/// fraction of a head's elements that are rotated, if the family has such a key. `original`: see read_scaling().
void read_rope_object(key_reader& keys, const families::config_keys& k, const char* key, const std::string& where,
                      const json& object, uint32_t positions, uint32_t original, rotary_positions& rope,
                      double& share) {
  if (!object.is_object()) return keys.refuse(key, "an object", object);
  key_reader inner(object);
  inner.refuse_null(inner.has("rope_type") ? "rope_type" : "type", "one of " + rope_types_joined());
  inner.refuse_null("rope_theta", "a number");
  std::string type = inner.text("rope_type", inner.text("type", "default"));
  if (std::ranges::find(k.longrope_names, std::string_view(type)) != k.longrope_names.end())
    type = name_of(rope_type::longrope);
  if (!k.scalings.empty() && std::ranges::find(k.scalings, std::string_view(type)) == k.scalings.end())
    inner.refuse("rope_type", fmt::format("one of {}", fmt::join(k.scalings, ", ")), type);
  rope.theta = inner.number("rope_theta", rope.theta, 1.0, 1e12);
  if (!k.rotary_share.name.empty()) share = read_share(inner, "partial_rotary_factor", share);
  if (const auto known = rope_type_named(type)) {
    rope.type = *known;
    if (rope.type == rope_type::plain && !k.rotary_share.name.empty())
      inner.refuse_null("partial_rotary_factor", "a number");
    read_scaling(inner, positions, original, rope);
    inner.add(unread_rotary_problems(where, object, inner.unread()));
  } else {
    inner.refuse("rope_type", "one of " + rope_types_joined(), type);
  }
  for (const spec_problem& p : inner.problems()) keys.wrong(key, p.what.text + ", in '" + where + "'");
}

/// Reads the key `rope_parameters` of a model whose layers have positions of two kinds: an object for each kind.
void read_rope_kinds(key_reader& keys, const families::config_keys& k, const json& object, model_spec& spec) {
  constexpr const char* key = "rope_parameters";
  const auto refused = [&] {
    keys.refuse(key, "an object with full_attention and sliding_attention, each an object", object);
  };
  if (!object.is_object()) return refused();
  for (const auto& [kind, of_kind] : object.items()) {
    const bool is_full = kind == "full_attention";
    if (!is_full && kind != "sliding_attention") return refused();
    if (!of_kind.is_null())
      read_rope_object(keys, k, key, std::string(key) + "." + kind, of_kind, spec.positions, 0,
                       is_full ? spec.rope : spec.local_rope, spec.rotary_share);
  }
}

/// Reads the rotary positions: their base from the key in older files or from the object `rope_parameters` in newer
/// ones, and their scaling from that object or from `rope_scaling`.
void read_rotary(key_reader& keys, const families::config_keys& k, model_spec& spec) {
  const bool has_kinds = !k.local_rotary_base.name.empty();
  spec.rope.theta = keys.number(k.rotary_base.name, k.rotary_base.usual, 1.0, 1e12);
  if (has_kinds) spec.local_rope.theta = keys.number(k.local_rotary_base.name, k.local_rotary_base.usual, 1.0, 1e12);
  spec.rotary_share = k.rotary_share.usual;
  if (!k.rotary_share.name.empty()) spec.rotary_share = read_share(keys, k.rotary_share.name, k.rotary_share.usual);
  uint32_t original = k.original_positions;
  if (keys.find("original_max_position_embeddings") != nullptr)
    original = keys.size("original_max_position_embeddings", 1, positions_max);
  const json *scaling = keys.find("rope_scaling"), *parameters = keys.find("rope_parameters");
  if (!has_kinds && parameters != nullptr && parameters->is_object() &&
      (parameters->contains("full_attention") || parameters->contains("sliding_attention")))
    return keys.refuse("rope_parameters", "one object for all layers, which have the same positions in this family",
                       *parameters);
  if (scaling != nullptr && parameters != nullptr && !scaling->empty() && *scaling != *parameters)
    return keys.wrong("rope_scaling",
                      "model keys 'rope_scaling' and 'rope_parameters' are two forms of one key and "
                      "differ: remove one of them");
  const auto has_base = [](const json* object) {
    return object != nullptr && object->is_object() && object->contains("rope_theta");
  };
  if (!has_base(scaling) && !has_base(parameters) && (!has_kinds || parameters == nullptr))
    keys.refuse_null(k.rotary_base.name, "a number");
  if (scaling != nullptr)
    read_rope_object(keys, k, "rope_scaling", "rope_scaling", *scaling, spec.positions, original, spec.rope,
                     spec.rotary_share);
  if (parameters != nullptr && has_kinds) return read_rope_kinds(keys, k, *parameters, spec);
  if (parameters != nullptr)
    read_rope_object(keys, k, "rope_parameters", "rope_parameters", *parameters, spec.positions, original, spec.rope,
                     spec.rotary_share);
  const rope_type type = spec.rope.type;
  if (type == rope_type::llama3 || type == rope_type::yarn || type == rope_type::longrope)
    keys.refuse_null("original_max_position_embeddings", "a whole number");
}

uint32_t read_size(key_reader& keys, const families::size_key& key, uint64_t fallback, uint64_t max) {
  return key.name.empty() ? static_cast<uint32_t>(fallback) : keys.size(key.name, fallback, max);
}
uint32_t read_size(key_reader& keys, const families::size_key& key, uint64_t max) {
  return read_size(keys, key, key.usual, max);
}
bool read_flag(key_reader& keys, const families::flag_key& key) {
  return key.name.empty() ? key.usual : keys.flag(key.name, key.usual);
}
/// Reads a factor above 0; the family's default if the key is absent or null.
double read_factor(key_reader& keys, const families::number_key& key) {
  return key.name.empty() ? key.usual : keys.number(key.name, key.usual, least_factor, factor_max);
}
/// Reads the whole number whose root divides the attention scores. `16.0` counts as whole: files of earlier versions
/// have it.
double read_score_width(key_reader& keys, const families::number_key& key) {
  const double width = read_factor(keys, key);
  if (width != std::floor(width)) keys.refuse(key.name, "a whole number", json(width));
  return width;
}
float read_dropout(key_reader& keys, const families::number_key& key) {
  return key.name.empty() ? static_cast<float>(key.usual) : keys.probability(key.name, key.usual);
}

/// Reads the width of a head: the family's key, or its default, or the model's width divided by the number of heads.
uint32_t read_head_width(key_reader& keys, const families::config_keys& k, const model_spec& spec) {
  if (!k.head_width.name.empty() && keys.find(k.head_width.name) != nullptr)
    return keys.size(k.head_width.name, 1, width_max);
  if (k.head_width.usual > 0 && !keys.is_null(k.head_width.name)) return k.head_width.usual;
  if (spec.width % spec.heads != 0 && !keys.refused(k.width.name) && !keys.refused(k.heads.name))
    keys.wrong(std::string(k.heads.name), fmt::format("model key '{}': wanted a divisor of {} {}, got {}", k.heads.name,
                                                      k.width.name, spec.width, spec.heads));
  return spec.width / spec.heads;
}

/// Reads which layers have rotary positions.
void read_rotations(key_reader& keys, const families::config_keys& k, model_spec& spec) {
  if (k.rotated_layers.empty()) return;
  const uint32_t every = read_size(keys, k.unrotated_every, layers_max);
  const json* list = keys.find(k.rotated_layers);
  const auto is_flag = [](const json& x) {
    return x.is_number_integer() && (x.get<int64_t>() == 0 || x.get<int64_t>() == 1);
  };
  if (list != nullptr && (!list->is_array() || list->size() < spec.layers || !std::ranges::all_of(*list, is_flag)))
    return keys.refuse(k.rotated_layers, fmt::format("a list of 0 or 1 for each of {} layers", spec.layers), *list);
  spec.rotations.resize(spec.layers, rotation::usual);
  for (uint32_t l = 0; l < spec.layers; ++l)
    if (list == nullptr ? (l + 1) % every == 0 : (*list)[l] == 0) spec.rotations[l] = rotation::none;
}

/// Returns which layers have the model's window of attention. `kinds` is the list of each layer's kind of attention;
/// null: `has_usually` decides for each layer. `exists`: the model has a window. Reports an error for a list with
/// another number of entries than layers, or with a window although the model has none.
std::vector<bool> layers_with_window(key_reader& keys, const json* kinds, uint32_t layers, bool exists,
                                     auto&& has_usually) {
  std::vector<bool> out(layers, false);
  if (kinds == nullptr) {
    for (uint32_t l = 0; l < layers; ++l) out[l] = exists && has_usually(l);
    return out;
  }
  const auto is_known = [&](const json& kind) {
    return is_full_attention(kind) || (exists && kind == "sliding_attention");
  };
  if (!kinds->is_array() || !std::ranges::all_of(*kinds, is_known)) {
    keys.refuse("layer_types",
                exists ? "full_attention or sliding_attention in every layer"
                       : "full_attention in every layer of a model without a window",
                *kinds);
  } else if (kinds->size() != layers) {
    keys.wrong("layer_types", fmt::format("model key 'layer_types': wanted one entry for each of {} layers, got {}",
                                          layers, kinds->size()));
  } else {
    for (uint32_t l = 0; l < layers; ++l) out[l] = !is_full_attention((*kinds)[l]);
  }
  return out;
}

/// Reads the window of attention and the layers that have it: none if its key is null or its switch is off.
void read_window(key_reader& keys, const families::config_keys& k, model_spec& spec) {
  if (k.window.name.empty()) return;
  const bool is_on = read_flag(keys, k.window_switch) || k.window_switch.name.empty();
  const uint32_t window = read_size(keys, k.window, positions_max);
  const uint32_t full =
      k.full_layers.name.empty() ? 0 : keys.size(k.full_layers.name, k.full_layers.usual, positions_max, /*least=*/0);
  const uint32_t every = read_size(keys, k.full_every, layers_max);
  // transformers fails for a family whose layers have the window in turn
  if (every > 0) keys.refuse_null(k.window.name, "a whole number");
  const bool exists = is_on && window > 0 && !keys.is_null(k.window.name);
  const json* kinds = keys.find("layer_types");
  const auto has_window = [](const json& kind) { return kind == "sliding_attention"; };
  if (k.all_have_window && exists && kinds != nullptr &&
      (!kinds->is_array() || !std::ranges::all_of(*kinds, has_window)))
    return keys.refuse("layer_types", "sliding_attention in every layer of a family whose layers all have the window",
                       *kinds);
  const auto has = layers_with_window(keys, kinds, spec.layers, exists, [&](uint32_t l) {
    if (!k.rotated_layers.empty()) return spec.rotation_in(l) == rotation::none;
    return l >= full && (every == 0 || (l + 1) % every != 0);
  });
  if (!exists) return;
  spec.attention.resize(spec.layers);
  for (uint32_t l = 0; l < spec.layers; ++l)
    if (has[l]) spec.attention[l].window = window;
  if (k.local_rotary_base.name.empty()) return;
  spec.rotations.resize(spec.layers, rotation::usual);
  for (uint32_t l = 0; l < spec.layers; ++l)
    if (has[l]) spec.rotations[l] = rotation::local;
}

/// Reads the token that transformers gives to nn.Embedding as padding_idx; a negative number counts from the end of the
/// vocabulary.
std::optional<uint32_t> read_padding(key_reader& keys, const families::config_keys& k, const model_spec& spec) {
  if (k.padding.name.empty() || keys.refused(k.vocabulary.name)) return std::nullopt;
  const json* v = keys.find(k.padding.name);
  if (v == nullptr) {
    const bool has_usual = !keys.is_null(k.padding.name) && k.padding.usual < spec.vocabulary;
    return has_usual ? k.padding.usual : std::nullopt;
  }
  const int64_t size = spec.vocabulary;
  const bool fits = v->is_number_unsigned() ? v->get<uint64_t>() < spec.vocabulary
                                            : v->is_number_integer() && v->get<int64_t>() >= -size;
  if (!fits) {
    keys.refuse(k.padding.name, fmt::format("a token from 0 to {} or, from the end, -{} to -1", size - 1, size), *v);
    return std::nullopt;
  }
  const auto token = v->get<int64_t>();
  return static_cast<uint32_t>(token < 0 ? token + size : token);
}

/// Reads what an encoder needs besides the keys of every family: types of tokens, the position of a text's first token,
/// and its special tokens. Lets attention see all tokens.
void read_encoder(key_reader& keys, const families::family& f, model_spec& spec) {
  spec.attention.resize(spec.layers);
  for (attention_options& a : spec.attention) a.causal = false;
  spec.token_types = read_size(keys, f.keys.token_types, width_max);
  spec.head_act = f.head_activation.empty() ? spec.act : activation_named(f.head_activation).value_or(spec.act);
  if (f.positions_follow_padding) {
    const std::string_view padding = f.keys.padding.name;
    const json* v = keys.find(padding);
    const bool is_negative = v != nullptr && v->is_number_integer() && v->get<int64_t>() < 0;
    if ((keys.is_null(padding) || is_negative) && !keys.refused(padding))
      keys.refuse(padding, "a token from 0 on, behind whose number positions begin", v == nullptr ? json() : *v);
    spec.first_position = spec.padding_token.value_or(0) + 1;
    if (keys.problems().empty() && spec.positions <= spec.first_position)
      keys.wrong(std::string(f.keys.positions.name),
                 fmt::format("model key '{}': wanted more than {} positions, because the first {} are not used, got {}",
                             f.keys.positions.name, spec.first_position, spec.first_position, spec.positions));
  }
  const auto add_special = [&spec](const json& v) {
    if (v.is_number_unsigned() && v.get<uint64_t>() < spec.vocabulary) spec.special_tokens.push_back(v.get<uint32_t>());
  };
  for (const char* key : {"bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id", "unk_token_id"}) {
    const json* v = keys.find(key);
    if (v == nullptr) continue;
    if (v->is_array()) {  // several ends of text
      for (const json& one : *v) add_special(one);
    } else {
      add_special(*v);
    }
  }
  if (keys.find("mask_token_id") != nullptr)
    spec.mask_token = keys.size("mask_token_id", 0, spec.vocabulary - uint64_t{1}, /*least=*/0);
  for (const auto& token : {spec.padding_token, spec.mask_token})
    if (token) spec.special_tokens.push_back(*token);
  std::ranges::sort(spec.special_tokens);
}

/// Reads a soft cap; 0 if there is none.
double read_soft_cap(key_reader& keys, const families::number_key& key) {
  return key.name.empty() || keys.is_null(key.name) ? 0 : read_factor(keys, key);
}

/// Reads the factor of attention scores and their soft cap, which all layers share.
void read_scores(key_reader& keys, const families::config_keys& k, model_spec& spec) {
  double scale = read_factor(keys, k.attention_scale);
  if (!k.score_width.name.empty()) scale = 1 / std::sqrt(read_score_width(keys, k.score_width));
  const double cap = read_soft_cap(keys, k.attention_soft_cap);
  if (scale == 0 && cap == 0) return;
  spec.attention.resize(spec.layers);
  for (attention_options& a : spec.attention) {
    a.scale = scale;
    a.soft_cap = cap;
  }
}

/// Reads the flags that scale the attention scores, and stores each block's factor if they do not leave the usual one.
void read_score_flags(key_reader& keys, const families::config_keys& k, model_spec& spec) {
  spec.scales_scores = read_flag(keys, k.scales_scores);
  spec.scales_by_layer = read_flag(keys, k.scales_by_layer);
  if (spec.scales_scores && !spec.scales_by_layer) return;
  spec.attention.resize(spec.layers);
  const double of_all = spec.scales_scores ? 1 / std::sqrt(static_cast<double>(spec.head_width)) : 1;
  for (uint32_t b = 0; b < spec.layers; ++b) spec.attention[b].scale = spec.scales_by_layer ? of_all / (b + 1) : of_all;
}

/// Reports an error unless the numbers of heads and key-value heads, their width and the model's width are consistent.
void check_heads(key_reader& keys, const families::family& f, const model_spec& spec) {
  const auto& k = f.keys;
  const std::string heads(k.heads.name);
  if (f.is_rotary() && spec.rotary_width == spec.head_width && spec.head_width % 2 != 0)
    keys.wrong(heads, fmt::format("rotary positions require an even head width, got {}", spec.head_width));
  else if (f.is_rotary() && (spec.rotary_width == 0 || spec.rotary_width % 2 != 0))
    keys.wrong(std::string(k.rotary_share.name),
               fmt::format("rotary positions require an even number of a head's elements, at least 2, got {} of {}",
                           spec.rotary_width, spec.head_width));
  if (f.is_rotary() && spec.rope.type == rope_type::dynamic &&
      spec.rotary_width == 2)  // transformers' formula divides by the rotary width minus 2
    keys.wrong("rope_scaling", "rope_type dynamic: wanted a head width of at least 4, got 2");
  if (f.is_rotary() && spec.rope.type == rope_type::longrope)
    for (const auto& [name, factors] :
         {std::pair{"short_factor", &spec.rope.short_factors}, std::pair{"long_factor", &spec.rope.long_factors}})
      if (factors->size() != spec.rotary_width / 2)
        keys.wrong("rope_scaling", fmt::format("model key '{}' of rope_type longrope: wanted {} numbers, one for each "
                                               "pair of a head's elements, got {}",
                                               name, spec.rotary_width / 2, factors->size()));
  if (uint64_t{spec.heads} * spec.head_width > width_max)
    keys.wrong(heads, fmt::format("model keys '{}' x '{}': wanted at most {}, got {}", heads, k.head_width.name,
                                  width_max, uint64_t{spec.heads} * spec.head_width));
  if (spec.heads % spec.kv_heads != 0)
    keys.wrong(std::string(k.kv_heads.name), fmt::format("model key '{}': wanted a divisor of {} {}, got {}",
                                                         k.kv_heads.name, heads, spec.heads, spec.kv_heads));
}

/// Refuses null for keys whose null transformers refuses. A null that has a meaning (a size that follows from others,
/// no window, no cap, no padding token) stays.
void refuse_nulls(key_reader& keys, const families::config_keys& k) {
  constexpr const char* a_value = "a value, or no such key";
  for (const auto& size :
       {k.layers, k.width, k.heads, k.positions, k.vocabulary, k.token_types, k.full_layers, k.unrotated_every})
    keys.refuse_null(size.name, "a whole number");
  if (k.inner.usual > 0) keys.refuse_null(k.inner.name, "a whole number");
  for (const auto& flag : {k.window_switch, k.tied, k.attention_bias, k.mlp_bias, k.parallel_residual})
    keys.refuse_null(flag.name, "true or false");
  for (const auto& number : {k.norm_epsilon, k.embedding_scale, k.residual_scale, k.attention_scale, k.score_width,
                             k.logit_divisor, k.embedding_dropout, k.attention_dropout, k.residual_dropout})
    keys.refuse_null(number.name, "a number");
  keys.refuse_null(k.activation, "a text");
  keys.refuse_null("initializer_range", "a number");
  for (const std::string_view key : k.never_null) keys.refuse_null(key, a_value);
  for (const char* key : {"use_cache", "num_labels"}) keys.refuse_null(key, a_value);
}

void read_keys(const families::family& f, key_reader& keys, model_spec& spec) {
  const auto& k = f.keys;
  spec.family = &f;
  refuse_nulls(keys, k);
  spec.layers = read_size(keys, k.layers, layers_max);
  spec.width = read_size(keys, k.width, width_max);
  spec.heads = read_size(keys, k.heads, width_max);
  // A null in config.json means as many key-value heads as query heads; if the key is missing, the family's default
  // applies.
  const bool has_usual = k.kv_heads.usual > 0 && !keys.is_null(k.kv_heads.name);
  spec.kv_heads = read_size(keys, k.kv_heads, has_usual ? k.kv_heads.usual : spec.heads, width_max);
  spec.inner = read_size(keys, k.inner, k.inner.usual > 0 ? k.inner.usual : uint64_t{4} * spec.width, inner_max);
  spec.positions = read_size(keys, k.positions, positions_max);
  spec.vocabulary = read_size(keys, k.vocabulary, vocabulary_max);
  spec.padding_token = read_padding(keys, k, spec);
  spec.act = read_activation(keys, k.activation, k.usual_activation);
  spec.tied = read_flag(keys, k.tied);
  spec.attention_bias = read_flag(keys, k.attention_bias);
  spec.mlp_bias = read_flag(keys, k.mlp_bias);
  spec.parallel_residual = read_flag(keys, k.parallel_residual);
  spec.norm_epsilon = keys.number(k.norm_epsilon.name, k.norm_epsilon.usual, 0.0, 1.0);
  spec.initializer_range = keys.number("initializer_range", 0.02, 0.0, 1e3);
  spec.embedding_scale = f.embedding_grows_with_width ? std::sqrt(spec.width) : read_factor(keys, k.embedding_scale);
  spec.residual_scale = read_factor(keys, k.residual_scale);
  spec.logits = {read_factor(keys, k.logit_divisor), read_soft_cap(keys, k.logit_soft_cap)};
  spec.embedding_dropout = read_dropout(keys, k.embedding_dropout);
  spec.attention_dropout = read_dropout(keys, k.attention_dropout);
  spec.residual_dropout = read_dropout(keys, k.residual_dropout);
  for (const auto& flag : k.fixed) keys.only(flag.name, flag.value);
  for (const auto& fixed : k.fixed_texts)
    if (const auto got = keys.text(fixed.name, std::string(fixed.value)); got != fixed.value)
      keys.refuse(fixed.name, std::string(fixed.value), json(got));
  if (f.is_encoder) read_encoder(keys, f, spec);
  if (f.is_rotary()) read_rotary(keys, k, spec);
  read_rotations(keys, k, spec);
  read_window(keys, k, spec);
  read_scores(keys, k, spec);
  spec.head_width = read_head_width(keys, k, spec);
  read_score_flags(keys, k, spec);
  spec.rotary_width = static_cast<uint32_t>(spec.head_width * spec.rotary_share);
  // The check combines several keys, so it is made only if no key has an error.
  if (keys.problems().empty()) check_heads(keys, f, spec);
}

/// A model's specification as far as config.json could be read, and all errors in its keys.
struct reading {
  model_spec spec;
  bool has_family = false;
  std::vector<spec_problem> problems;
  std::vector<std::string> unknown;  ///< names of the keys in config.json that are in no table
};

/// Returns the object that has the key `name`, and the key's name in it. If `object` has no key of that whole name,
/// `rope_scaling.factor` means the key `factor` of its object `rope_scaling`, which may have objects of its own. Null
/// if there is none.
std::pair<json*, std::string> holder_of(json& object, const std::string& name) {
  if (object.contains(name)) return {&object, name};
  const auto dot = name.find('.');
  const auto inner = dot == name.npos ? object.end() : object.find(name.substr(0, dot));
  if (inner == object.end() || !inner->is_object()) return {};
  return holder_of(*inner, name.substr(dot + 1));
}

/// Gives a model without a padding token the key with null, because transformers builds no model whose vocabulary lacks
/// the family's usual token. Returns true if the keys of config.json changed.
template <typename Json>
bool add_null_padding(Json& keys, const model_spec& spec) {
  const families::padding_key& key = spec.family->keys.padding;
  const std::string name(key.name);
  if (!key.usual || *key.usual < spec.vocabulary || keys.contains(name)) return false;
  keys[name] = nullptr;
  return true;
}

/// Returns the keys of config.json as text, with which transformers builds the model of `spec`.
std::string text_for_transformers(json given, const model_spec& spec) {
  add_null_padding(given, spec);
  return given.dump(2, ' ', false, json::error_handler_t::replace);
}

/// Returns what the key `architectures` of a config.json without a model_type says about its family, for messages:
/// " (its architectures has LlamaForCausalLM, which is llama)". Empty: nothing, or another family.
std::string note_of_architecture(const json& object) {
  const auto at = object.find("architectures");
  if (at == object.end() || !at->is_array() || at->empty() || !at->front().is_string()) return {};
  const auto name = at->front().get<std::string>();
  if (const families::family* f = families::find_architecture(name))
    return fmt::format(" (its architectures has {}, which is {})", name, f->model_type);
  return families::nearest_note(name.substr(0, std::min({name.find("For"), name.find("LMHead"), name.find("Model")})));
}

reading read_all(const std::string& hugging_face_json, std::span<const std::string> ignored) {
  reading out;
  auto object = parse_object(hugging_face_json);
  if (!object) {
    out.problems.push_back({"", object.error(), true});
    return out;
  }
  json given = *object;
  for (const auto& key : ignored)
    if (const auto [holder, name] = holder_of(*object, key); holder != nullptr) holder->erase(name);
  key_reader keys(*object);
  const std::string type = keys.text("model_type", "");
  const families::family* const found = families::find(type);
  out.has_family = found != nullptr;
  if (out.has_family) {
    keys.set_family(*found);
    read_keys(*found, keys, out.spec);
    keys.add(unread_problems(*found, *object, keys.unread()));
    out.unknown = unknown_names(*found, *object, keys.unread());
  } else if (keys.problems().empty()) {
    keys.wrong("model_type", "model key 'model_type': wanted " + families::names_joined() + ", got " +
                                 (type.empty() ? "nothing" + note_of_architecture(*object)
                                               : "'" + core::shown(type) + "'" + families::nearest_note(type)));
  }
  out.spec.hugging_face_json = text_for_transformers(std::move(given), out.spec);
  out.problems = keys.problems();
  return out;
}

}  // namespace

uint64_t model_spec::shortest_window() const {
  uint64_t out = 0;
  for (const attention_options& a : attention) {
    const auto window = static_cast<uint64_t>(a.window);
    if (window > 0) out = out == 0 ? window : std::min(out, window);
  }
  return out;
}

core::result<model_spec> parse_model_spec(const std::string& hugging_face_json, std::span<const std::string> ignored) {
  reading read = read_all(hugging_face_json, ignored);
  if (!read.problems.empty()) return core::fail(std::move(read.problems.front().what));
  return std::move(read.spec);
}

std::string with_untied_head(const std::string& hugging_face_json) {
  auto keys = core::parse_json<nlohmann::ordered_json>(hugging_face_json, max_model_keys_depth);
  if (!keys || !keys->is_object()) return hugging_face_json;
  (*keys)["tie_word_embeddings"] = false;
  return keys->dump(2, ' ', false, json::error_handler_t::replace);
}

std::string with_null_padding(const std::string& hugging_face_json, std::span<const std::string> ignored) {
  const auto spec = parse_model_sizes(hugging_face_json, ignored);
  if (!spec || !*spec) return hugging_face_json;
  auto keys = core::parse_json<nlohmann::ordered_json>(hugging_face_json, max_model_keys_depth);
  if (!keys || !add_null_padding(*keys, **spec)) return hugging_face_json;
  return keys->dump(2, ' ', false, json::error_handler_t::replace);
}

core::result<std::optional<model_spec>> parse_model_sizes(const std::string& hugging_face_json,
                                                          std::span<const std::string> ignored) {
  reading read = read_all(hugging_face_json, ignored);
  for (const auto& p : read.problems)
    if (p.of_sizes) return core::fail(p.what);
  if (!read.has_family) return std::nullopt;
  return std::move(read.spec);
}

bool is_gguf_file(const std::filesystem::path& path) {
  constexpr std::string_view begins = "GGUF";
  std::error_code e;
  if (!std::filesystem::is_regular_file(path, e)) return false;
  std::array<char, begins.size()> start{};
  std::ifstream file(path, std::ios::binary);
  return file.read(start.data(), start.size()) && std::string_view(start.data(), start.size()) == begins;
}

core::result<model_spec> read_spec(const std::filesystem::path& folder, std::span<const std::string> ignored) {
  if (is_gguf_file(folder))
    return core::refused(fmt::format(
        "wanted a folder with a config.json, got the GGUF file '{0}': `troupe init JOB --from {0}` writes a job with "
        "the keys of its model that begins with its weights; --resume {0} loads them into a job that has these keys",
        folder.string()));
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
  std::string out = "has no key '" + core::shown(*absent) + "' to ignore";
  const reading read = read_all(hugging_face_json, {});
  if (!read.has_family) return out;
  if (read.unknown.empty()) return out + "; all of its keys are known";
  out += "; its unknown keys:";
  constexpr size_t shown_max = 5;
  for (size_t i = 0; i < std::min(read.unknown.size(), shown_max); ++i)
    out += (i == 0 ? " '" : ", '") + core::shown(read.unknown[i]) + "'";
  return read.unknown.size() > shown_max ? out + ", ..." : out;
}

bool is_known_key(const families::family& f, const std::string& key) {
  json object{{key, nullptr}};
  object["model_type"] = std::string(f.model_type);
  return read_all(object.dump(-1, ' ', false, json::error_handler_t::replace), {}).unknown.empty();
}

std::vector<spec_problem> problems_of(const std::string& hugging_face_json, std::span<const std::string> ignored) {
  return read_all(hugging_face_json, ignored).problems;
}

}  // namespace troupe::models
