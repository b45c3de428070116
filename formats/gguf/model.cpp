#include "formats/gguf/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/number.hpp"
#include "core/text.hpp"
#include "families/all_families.hpp"
#include "formats/gguf/families.hpp"
#include "formats/gguf/rope_divisors.hpp"

namespace troupe::formats {
namespace {

using json = nlohmann::ordered_json;

/// Largest value of one size of a model; a product of three sizes does not overflow.
constexpr uint64_t max_size = uint64_t{1} << 20;
constexpr uint64_t max_positions = uint64_t{1} << 30;
constexpr double usual_rope_theta = 10000;

/// Reads the sizes and numbers of a model from the metadata keys of its architecture, and stores the first error.
class size_reader {
 public:
  size_reader(const gguf_metadata& m, std::string architecture) : m_(m), architecture_(std::move(architecture)) {}

  uint32_t size(const char* key, std::optional<uint64_t> otherwise = {}, uint64_t most = max_size) {
    const auto name = fmt::format("{}.{}", architecture_, key);
    const auto value = m_.find(name) == nullptr && otherwise ? otherwise : m_.whole(name);
    if (value && *value > 0 && *value <= most) return static_cast<uint32_t>(*value);
    if (wrong_.empty())
      wrong_ = fmt::format("key '{}' must be a whole number from 1 to {}{}", name, most,
                           value ? fmt::format(", got {}", *value) : "");
    return 1;
  }
  double number(const char* key, double least, std::optional<double> otherwise = {}) {
    const auto name = fmt::format("{}.{}", architecture_, key);
    const auto value = m_.find(name) == nullptr ? otherwise : m_.number(name);
    if (value && std::isfinite(*value) && *value >= least) return *value;
    if (wrong_.empty())
      wrong_ = fmt::format("key '{}' must be a number from {} on{}", name, least,
                           value ? fmt::format(", got {}", *value) : "");
    return least;
  }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  const gguf_metadata& m_;
  std::string architecture_, wrong_;
};

/// Returns the double whose shortest decimal text equals that of the fp32 number: 1e-05, not 9.999999747378752e-06.
double shortest(double fp32) {
  return core::number_of<double>(fmt::format("{}", static_cast<float>(fp32))).value_or(fp32);
}

/// Returns a number that was computed as a product of fp32 numbers, without last digits that are only rounding errors:
/// 1.3, not 1.30000007.
double without_rounding(double x) {
  constexpr double rounding = 3e-7;
  const auto six_digits = core::number_of<double>(fmt::format("{:.6g}", x));
  return six_digits && std::abs(*six_digits - x) <= rounding * std::abs(x) ? *six_digits : shortest(x);
}

/// Returns the number whose root divides the model's attention scores in llama.cpp.
uint32_t score_width_of(const families::family& f, const gguf_model& m) {
  return m.blocks == f.gguf.wide_blocks ? m.width / m.heads : m.head_width;
}

/// Returns a JSON object with the model's sizes, under the names that the family has for them in config.json.
json keys_of(const families::family& f, const gguf_model& m) {
  const auto& k = f.keys;
  json out{{"model_type", f.model_type}};
  const auto add = [&](std::string_view key, const json& value) {
    if (!key.empty()) out[std::string(key)] = value;
  };
  add(k.layers.name, m.blocks);
  add(k.width.name, m.width);
  if (k.inner.usual > 0 || m.inner != uint64_t{4} * m.width) add(k.inner.name, m.inner);
  add(k.heads.name, m.heads);
  add(k.kv_heads.name, m.kv_heads);
  add(k.head_width.name, m.head_width);
  add(k.positions.name, m.positions);
  add(k.vocabulary.name, m.vocabulary);
  // Without the key, transformers uses the family's padding token, and fails if the vocabulary lacks that token.
  if (k.padding.usual && *k.padding.usual >= m.vocabulary) add(k.padding.name, nullptr);
  add(k.activation, f.gguf.activation);
  add(k.norm_epsilon.name, m.norm_epsilon);
  if (f.is_rotary()) {
    add(k.rotary_base.name, m.rope_theta);
    add(k.local_rotary_base.name, k.local_rotary_base.usual);
    add(k.rotary_share.name, static_cast<double>(m.rotary_width) / m.head_width);
  }
  if (m.parallel_residual) add(k.parallel_residual.name, *m.parallel_residual);
  add(k.score_width.name, score_width_of(f, m));
  if (f.gguf.stores_window) add(k.window.name, m.window);
  add(k.attention_bias.name, m.attention_bias);
  add(k.mlp_bias.name, m.mlp_bias);
  for (const auto& number : f.gguf.numbers)
    for (const auto& [key, value] : m.numbers)
      if (key == number.theirs)  // if the family's number may be absent, 0 means that it is
        add((k.*number.ours).name, value == 0 && number.absent >= 0 ? json(nullptr) : json(value));
  return out;
}

/// Returns the metadata key of the epsilon that the family's norms add, without the architecture's prefix.
const char* epsilon_key(const families::family& f) {
  return f.norm == families::norm_kind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
}

/// Metadata keys that model_of() reads or that do not change the model, without the architecture's prefix.
constexpr std::array<std::string_view, 15> read_keys{"block_count",
                                                     "context_length",
                                                     "embedding_length",
                                                     "feed_forward_length",
                                                     "attention.head_count",
                                                     "attention.head_count_kv",
                                                     "attention.key_length",
                                                     "attention.layer_norm_epsilon",
                                                     "attention.layer_norm_rms_epsilon",
                                                     "rope.freq_base",
                                                     "rope.scaling.finetuned",
                                                     "tensor_data_layout",
                                                     "attention.value_length",
                                                     "rope.dimension_count",
                                                     "vocab_size"};
/// Metadata keys that do not change the model if they have these values, without the architecture's prefix.
constexpr std::array<std::pair<std::string_view, double>, 18> neutral_keys{{{"expert_count", 0},
                                                                            {"expert_used_count", 0},
                                                                            {"logit_scale", 1},
                                                                            {"embedding_scale", 1},
                                                                            {"residual_scale", 1},
                                                                            {"attention.causal", 1},
                                                                            {"attention.sliding_window", 0},
                                                                            {"attention.max_alibi_bias", 0},
                                                                            {"attention.clamp_kqv", 0},
                                                                            {"use_parallel_residual", 0},
                                                                            {"rope.scaling.attn_factor", 1},
                                                                            {"rope.scaling.yarn_ext_factor", 1},
                                                                            {"rope.scaling.yarn_attn_factor", 1},
                                                                            {"rope.scaling.yarn_beta_fast", 32},
                                                                            {"rope.scaling.yarn_beta_slow", 1},
                                                                            {"rope.scaling.yarn_log_multiplier", 0},
                                                                            {"rope.freq_base_swa", 10000},
                                                                            {"rope.scale_linear", 1}}};

json json_of(const gguf_value& v) {
  if (v.type == gguf_value_type::text) return v.text;
  if (v.type == gguf_value_type::boolean) return v.bits != 0;
  if (const auto whole = v.whole()) return *whole;
  if (const auto number = v.number()) return shortest(*number);
  return fmt::format("{} values", v.count());
}

/// True if the file marks `token` as a special one, or does not say what kinds its tokens have. llama.cpp wants a token
/// for the begin and the end of texts: files of vocabularies without one name a token that no text has, of another
/// kind, and say with `add_bos_token` that texts do not begin with it. Files of older converters mark no token at all
/// and have no such key; their tokens for begin and end are normal ones.
bool is_marked(const gguf_metadata& m, uint64_t token) {
  constexpr int32_t normal = 1, control = 3, user_defined = 4;  // llama.cpp's numbers of kinds
  const auto* const kinds = m.find("tokenizer.ggml.token_type");
  if (kinds == nullptr || (kinds->items != gguf_value_type::i32 && kinds->items != gguf_value_type::u32)) return true;
  const uint64_t tokens = kinds->numbers.size() / sizeof(int32_t);
  const auto kind_of = [&](uint64_t t) {
    int32_t kind = 0;
    std::memcpy(&kind, kinds->numbers.data() + t * sizeof kind, sizeof kind);
    return kind;
  };
  const auto is_special = [&](uint64_t t) { return kind_of(t) == control || kind_of(t) == user_defined; };
  if (token >= tokens) return false;
  if (is_special(token)) return true;
  if (kind_of(token) != normal || m.find("tokenizer.ggml.add_bos_token") != nullptr) return false;
  for (uint64_t t = 0; t < tokens; ++t)
    if (is_special(t)) return false;
  return true;
}

/// Returns the scaling of rotary positions in config.json's form; null if there is no scaling, or if config.json cannot
/// express it. Adds to `used` the keys that the result expresses.
json rope_keys_of(const gguf_model& m, const gguf_metadata& metadata, std::set<std::string>& used) {
  const auto& a = m.architecture;
  const auto key = [&](const char* name) { return fmt::format("{}.rope.{}", a, name); };
  const auto factor_key = metadata.find(key("scaling.factor")) != nullptr ? key("scaling.factor") : key("scale_linear");
  const auto* const type_value = metadata.find(key("scaling.type"));
  const auto* const factor_value = metadata.find(factor_key);
  if ((type_value != nullptr && type_value->type != gguf_value_type::text) ||
      (factor_value != nullptr && !factor_value->number()))
    return nullptr;
  const double factor = shortest(metadata.number(factor_key).value_or(0));
  const auto type = metadata.text(key("scaling.type"));
  const auto original = metadata.whole(key("scaling.original_context_length"));
  // llama.cpp uses the two tensors whatever the type, and its converter writes none for Phi-3
  const bool is_longrope =
      (type.empty() || type == "longrope") && !m.rope_short_divisors.empty() && !m.rope_long_divisors.empty();
  const bool is_linear = !is_longrope && (type.empty() || type == "linear");
  if (type == "none" || (is_linear && (factor == 0 || factor == 1))) {
    for (const char* name : {"scaling.type", "scaling.factor", "scaling.original_context_length", "scale_linear"})
      used.insert(key(name));
    return nullptr;
  }
  if (is_linear) {
    used.insert({key("scaling.type"), factor_key, key("scaling.original_context_length")});
    return {{"rope_type", "linear"}, {"factor", factor}};
  }
  const auto* const attention_value = metadata.find(key("scaling.attn_factor"));
  const auto attention = attention_value == nullptr ? std::optional(1.0) : attention_value->number();
  if (!original || !attention) return nullptr;
  if (is_longrope && (factor == 0 || factor == 1)) {
    used.insert({key("scaling.type"), factor_key, key("scaling.original_context_length"), key("scaling.attn_factor"),
                 fmt::format("{}.{}", a, gguf_short_factors_name), fmt::format("{}.{}", a, gguf_long_factors_name)});
    json out{{"rope_type", "longrope"},
             {"attention_factor", without_rounding(*attention)},
             {"original_max_position_embeddings", *original}};
    for (const float d : m.rope_short_divisors) out["short_factor"].push_back(shortest(d));
    for (const float d : m.rope_long_divisors) out["long_factor"].push_back(shortest(d));
    return out;
  }
  if (type != "yarn" || factor == 0) return nullptr;
  used.insert({key("scaling.type"), factor_key, key("scaling.original_context_length"), key("scaling.attn_factor")});
  json out{{"rope_type", "yarn"}, {"factor", factor}, {"original_max_position_embeddings", *original}};
  // llama.cpp multiplies by this factor and by the one that YaRN's paper has for the scaling.
  if (*attention != 1)
    out["attention_factor"] = without_rounding(*attention * (factor > 1 ? 0.1 * std::log(factor) + 1 : 1));
  return out;
}

/// Returns the scaling of rotary positions that the model's divisors and metadata state, in config.json's form; null as
/// rope_keys_of(). Adds to `used` the keys and the tensor that the result expresses.
json rope_scaling_of(const gguf_model& m, const gguf_metadata& metadata, std::set<std::string>& used) {
  auto of_keys = rope_keys_of(m, metadata, used);
  if (m.rope_divisors.empty() || !of_keys.is_null()) return of_keys;
  const auto original = metadata.whole(m.architecture + ".rope.scaling.original_context_length").value_or(0);
  const auto tensor = fmt::format("{}.{}", m.architecture, gguf_rope_factors_name);
  if (std::ranges::all_of(m.rope_divisors, [](float d) { return d == 1; })) {
    used.insert(tensor);
    return nullptr;
  }
  const auto found = llama3_scaling_of(m.rope_divisors, m.rope_theta,
                                       original <= max_positions ? static_cast<uint32_t>(original) : 0, m.positions);
  if (!found) return nullptr;
  used.insert(tensor);
  return {{"rope_type", "llama3"},
          {"factor", shortest(found->factor)},
          {"low_freq_factor", found->low_frequency_factor},
          {"high_freq_factor", found->high_frequency_factor},
          {"original_max_position_embeddings", found->original_positions}};
}

/// Adds the metadata keys that change the model and that config.json has no name for, under their GGUF names, so that
/// readers of the result refuse them by name.
void add_unsaid(json& out, const gguf_model& m, const gguf_metadata& metadata, const std::set<std::string>& used) {
  const std::string prefix = m.architecture + ".";
  const auto size_differs = [&](std::string_view name, const gguf_value& v) {
    if (name == "rope.dimension_count") return v.whole() != (m.rotary_width > 0 ? m.rotary_width : m.head_width);
    if (name == "attention.value_length") return v.whole() != m.head_width;
    return name == "vocab_size" && v.whole() != m.vocabulary;
  };
  for (const auto& [key, value] : metadata.entries) {
    if (!key.starts_with(prefix) || used.contains(key)) continue;
    const auto name = std::string_view(key).substr(prefix.size());
    const auto neutral = std::ranges::find(neutral_keys, name, &std::pair<std::string_view, double>::first);
    const auto number =
        value.type == gguf_value_type::boolean ? std::optional(value.bits != 0 ? 1.0 : 0.0) : value.number();
    if (neutral != neutral_keys.end() && number == neutral->second) continue;
    if (std::ranges::find(read_keys, name) != read_keys.end() && !size_differs(name, value)) continue;
    out[key] = json_of(value);
  }
  for (const auto& name : m.rope_tensors)
    if (!used.contains(prefix + name)) out[prefix + name] = "a tensor";
}

}  // namespace

gguf_metadata metadata_of(const gguf_model& m) {
  gguf_metadata out;
  const auto set = [&](const char* key, auto value) {
    out.set(fmt::format("{}.{}", m.architecture, key), gguf_value::of(value));
  };
  const auto* const f = families::find_gguf(m.architecture);
  out.set("general.architecture", gguf_value::of(m.architecture));
  out.set("general.type", gguf_value::of(std::string("model")));
  set("block_count", m.blocks);
  set("context_length", m.positions);
  set("embedding_length", m.width);
  set("feed_forward_length", m.inner);
  set("attention.head_count", m.heads);
  if (f == nullptr) return out;
  set(epsilon_key(*f), static_cast<float>(m.norm_epsilon));
  for (const auto& [key, value] : m.numbers) set(key.c_str(), static_cast<float>(value));
  if (m.window > 0) set("attention.sliding_window", m.window);
  if (m.parallel_residual) set("use_parallel_residual", *m.parallel_residual);
  if (!f->is_rotary()) return out;
  set("attention.head_count_kv", m.kv_heads);
  set("rope.freq_base", static_cast<float>(m.rope_theta));
  set("rope.dimension_count", m.rotary_width > 0 ? m.rotary_width : m.head_width);
  if (!m.rope_scaling.empty()) {
    set("rope.scaling.type", m.rope_scaling);
    // Longrope's tensors have the whole scaling; llama.cpp would divide the frequencies by this factor, too.
    if (m.rope_scaling != "longrope") set("rope.scaling.factor", static_cast<float>(m.rope_factor));
  }
  if (m.rope_attention_factor != 1) set("rope.scaling.attn_factor", static_cast<float>(m.rope_attention_factor));
  if (m.rope_original_positions > 0) set("rope.scaling.original_context_length", m.rope_original_positions);
  set("vocab_size", m.vocabulary);
  if (uint64_t{m.heads} * m.head_width != m.width) {
    set("attention.key_length", m.head_width);
    set("attention.value_length", m.head_width);
  }
  return out;
}

core::result<std::optional<gguf_model>> model_of(const gguf_header& h) {
  gguf_model m;
  m.architecture = h.metadata.text("general.architecture");
  const auto* const f = families::find_gguf(m.architecture);
  if (f == nullptr) return std::nullopt;
  const auto tensor = [&](std::string_view name) {
    const auto at = std::ranges::find(h.tensors, name, &gguf_tensor::name);
    return at == h.tensors.end() ? nullptr : &*at;
  };
  size_reader in(h.metadata, m.architecture);
  m.blocks = in.size("block_count");
  m.positions = in.size("context_length", {}, max_positions);
  m.width = in.size("embedding_length");
  m.inner = in.size("feed_forward_length", uint64_t{4} * m.width);
  m.heads = in.size("attention.head_count");
  m.kv_heads = in.size("attention.head_count_kv", m.heads);
  m.head_width = in.size("attention.key_length", m.width / m.heads);
  m.norm_epsilon = shortest(in.number(epsilon_key(*f), 0));
  m.rope_theta = shortest(in.number("rope.freq_base", 1, usual_rope_theta));
  for (const auto& number : f->gguf.numbers) {
    const std::string key(number.theirs);
    const auto absent = number.absent < 0 ? std::optional<double>() : std::optional(number.absent);
    m.numbers.emplace_back(key, shortest(in.number(key.c_str(), 0, absent)));
  }
  if (!f->keys.parallel_residual.name.empty()) {
    const auto* const flag = h.metadata.find(fmt::format("{}.use_parallel_residual", m.architecture));
    if (flag == nullptr || flag->type != gguf_value_type::boolean)
      return fail(error_kind::bad_input,
                  fmt::format("key '{}.use_parallel_residual' must be true or false", m.architecture));
    m.parallel_residual = flag->bits != 0;
  }
  if (f->gguf.stores_window) m.window = in.size("attention.sliding_window", f->keys.window.usual);
  if (!f->keys.rotary_share.name.empty()) m.rotary_width = in.size("rope.dimension_count", m.head_width);
  if (!in.wrong().empty()) return fail(error_kind::bad_input, in.wrong());
  for (const auto& t : h.tensors)
    if (is_rope_tensor(t.name)) m.rope_tensors.push_back(t.name);
  const auto* embedding = tensor(gguf_embedding_name);
  if (embedding == nullptr || embedding->extents.size() != 2 || embedding->extents[1] > max_gguf_items)
    return fail(error_kind::bad_input, fmt::format("there is no matrix '{}'", gguf_embedding_name));
  m.vocabulary = static_cast<uint32_t>(embedding->extents[1]);
  m.tied = tensor(gguf_head_name) == nullptr;
  m.attention_bias = tensor("blk.0.attn_q.bias") != nullptr || tensor("blk.0.attn_qkv.bias") != nullptr;
  m.mlp_bias = tensor("blk.0.ffn_up.bias") != nullptr;
  return m;
}

core::result<void> read_rope_divisors(const core::source_file& file, const gguf_header& h, gguf_model& m) {
  const uint64_t pairs = (m.rotary_width > 0 ? m.rotary_width : m.head_width) / 2;
  for (const auto& [name, out] : {std::pair{gguf_rope_factors_name, &m.rope_divisors},
                                  {gguf_short_factors_name, &m.rope_short_divisors},
                                  {gguf_long_factors_name, &m.rope_long_divisors}}) {
    const auto at = std::ranges::find(h.tensors, name, &gguf_tensor::name);
    if (at == h.tensors.end() || at->type != gguf_type::f32 || at->extents != std::vector<uint64_t>{pairs}) continue;
    out->resize(pairs);
    TROUPE_TRY(file.read(h.data_begin + at->offset_bytes, std::as_writable_bytes(std::span(*out))));
  }
  return {};
}

std::string hugging_face_keys(const gguf_model& m, const gguf_metadata& metadata) {
  const auto* const f = families::find_gguf(m.architecture);
  auto out = f == nullptr ? json::object() : keys_of(*f, m);
  out["tie_word_embeddings"] = m.tied;
  std::set<std::string> used;
  for (const auto& [key, value] : m.numbers) used.insert(fmt::format("{}.{}", m.architecture, key));
  if (m.parallel_residual) used.insert(fmt::format("{}.use_parallel_residual", m.architecture));
  if (m.window > 0) used.insert(fmt::format("{}.attention.sliding_window", m.architecture));
  if (f != nullptr && f->is_rotary())
    if (auto scaling = rope_scaling_of(m, metadata, used); !scaling.is_null()) {
      // a family with a default of its own reads the key outside of the object alone
      constexpr const char* original = "original_max_position_embeddings";
      if (f->keys.original_positions > 0 && scaling.contains(original)) out[original] = scaling[original];
      out["rope_scaling"] = std::move(scaling);
    }
  add_unsaid(out, m, metadata, used);
  for (const auto& [theirs, ours] : {std::pair{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                     std::pair{"tokenizer.ggml.eos_token_id", "eos_token_id"}})
    if (const auto id = metadata.whole(theirs)) out[ours] = is_marked(metadata, *id) ? json(*id) : json(nullptr);
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::formats
