// The keys of Hugging Face's config.json for the families that Troupe builds, by the rows of families/. This file
// checks their types and stores them as given; models/ interprets them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "config/keys/key_rows.hpp"
#include "families/all_families.hpp"

namespace troupe::config {
namespace {

using enum value_type;
constexpr double most_size = 1 << 24;

/// One key of config.json that a family reads.
struct family_key {
  std::string_view name;
  value_type type;
  std::string by_default;
  std::string_view meaning;
  std::function<void(key_info&)> limits = [](key_info&) {};
  bool takes_null = false;  ///< true: null may be given and has a meaning of its own
};

std::string yaml_of(bool v) { return v ? "true" : "false"; }
std::string yaml_of(uint32_t v) { return v == 0 ? "none" : fmt::to_string(v); }

value_type type_of(families::key_type type) {
  switch (type) {
    case families::key_type::whole_number:
      return integer;
    case families::key_type::flag:
      return boolean;
    case families::key_type::any:
      break;
  }
  return any;
}

void say_unread(key_info& row, std::string_view reason) {
  row.ignored(reason.empty() ? "describes the model to other programs" : reason);
}

/// Returns the keys that a family reads, in the order of the reference.
std::vector<family_key> keys_of(const families::family& f) {
  std::vector<family_key> out;
  const auto& k = f.keys;
  const auto add = [&](family_key key) {
    const bool is_there = std::ranges::find(out, key.name, &family_key::name) != out.end();
    if (!key.name.empty() && !is_there) out.push_back(std::move(key));
  };
  const auto size = [&](const families::size_key& key, std::string_view meaning, double most = most_size) {
    add({key.name, integer, yaml_of(key.usual), meaning, [most](key_info& r) { r.at_least(1).at_most(most); }});
  };
  const auto number_below = [&](const families::number_key& key, std::string_view meaning) {
    add({key.name, number, fmt::format("{}", key.usual), meaning, [](key_info& r) { r.at_least(0).below(1); }});
  };
  const auto flag = [&](const families::flag_key& key, std::string_view meaning) {
    add({key.name, boolean, yaml_of(key.usual), meaning});
  };
  const auto factor = [&](const families::number_key& key, std::string_view meaning) {
    add({key.name, number, fmt::format("{}", key.usual), meaning, [](key_info& r) { r.at_least(1e-6).below(1e6); }});
  };
  const auto soft_cap = [&](const families::number_key& key, std::string_view meaning) {
    if (key.name.empty()) return;
    factor(key, meaning);
    out.back().takes_null = true;
    if (key.usual == 0) out.back().by_default = "none";
  };
  const auto rotary_base = [&](const families::number_key& key, std::string_view meaning) {
    add({key.name, number, fmt::format("{}", key.usual), meaning, [](key_info& r) { r.at_least(1).below(1e12); }});
  };
  size(k.vocabulary, "Tokens there are.");
  add({"initializer_range", number, "0.02", "Standard deviation of the first weights.",
       [](key_info& r) { r.at_least(0).below(1000); }});
  flag(k.tied, "One matrix for embedding and head.");
  size(k.layers, "Blocks.", 4096);
  size(k.width, "Width of the residual stream.");
  size(k.heads, "Query heads; a divisor of the residual stream's width, unless a key says the width of a head.");
  size(k.kv_heads, "Key and value heads; a divisor of the query heads; none: as many.");
  size(k.head_width, "Width of a head; none: the residual stream's width / query heads.");
  size(k.positions, f.positions_follow_padding
                        ? "The longest sequence, and the positions up to the padding token, which no text has."
                        : "The longest sequence.");
  size(k.token_types, "Types that a token may have; texts have the first.");
  size(k.window, "Tokens that a token attends to, itself and those before it; null: all.");
  if (!k.window.name.empty()) {
    out.back().takes_null = true;
    add({"layer_types", texts, "none",
         "Each layer's kind of attention: full_attention, or sliding_attention to a window; none: by the other keys."});
  }
  flag(k.window_switch, "Attend to a window of tokens.");
  add({k.full_layers.name, integer, yaml_of(k.full_layers.usual), "First layers without a window.",
       [](key_info& r) { r.at_least(0).at_most(most_size); }});
  add({k.rotated_layers, integers, "none",
       "1 for each layer with rotary positions, 0 for each without; none: by the interval."});
  size(k.unrotated_every, "Number n: every n-th layer has no rotary positions.", 4096);
  size(k.full_every, "Number n: every n-th layer has no window.", 4096);
  size(k.inner, k.inner.usual > 0 ? "Width inside the MLP." : "Width inside the MLP; none: 4 x the residual stream's.");
  add({k.activation, text, std::string(k.usual_activation), "The MLP's non-linearity."});
  flag(k.attention_bias, "Biases in the attention's matrices.");
  flag(k.mlp_bias, "Biases in the MLP's matrices.");
  flag(k.parallel_residual, "Attention and MLP read the same residual stream.");
  factor(k.embedding_scale, "Factor of the embedding's vectors.");
  factor(k.residual_scale, "Factor of what attention and MLP add.");
  factor(k.attention_scale, "Factor of the attention scores.");
  add({k.score_width.name, integer, fmt::format("{}", k.score_width.usual),
       "Whole number whose root divides the attention scores.", [](key_info& r) { r.at_least(1).below(1e6); }});
  flag(k.scales_scores, "Divide attention scores by the root of the head's width.");
  flag(k.scales_by_layer, "Divide the attention scores of layer n, from 1, by n.");
  factor(k.logit_divisor, "Number by which the head's products are divided.");
  soft_cap(k.attention_soft_cap, "Limit that attention scores approach; null: none.");
  soft_cap(k.logit_soft_cap, "Limit that logits approach; null: none.");
  number_below(k.residual_dropout, "Dropout on what attention and MLP add.");
  if (k.embedding_dropout.name != k.residual_dropout.name)
    number_below(k.embedding_dropout, "Dropout on the embeddings.");
  number_below(k.attention_dropout, "Dropout on the attention weights.");
  number_below(k.norm_epsilon, f.norm == families::norm_kind::rms ? "Added to the mean square in a norm."
                                                                  : "Added to the variance in a norm.");
  for (const auto& fixed : k.fixed_texts)
    add({fixed.name, text, std::string(fixed.value), fixed.meaning,
         [value = fixed.value](key_info& r) { r.just(value); }});
  for (const auto& fixed : k.fixed)
    add({fixed.name, boolean, yaml_of(fixed.value), fixed.meaning,
         [value = fixed.value](key_info& r) { r.just(value ? "true" : "false"); }});
  if (f.is_rotary()) {
    rotary_base(k.rotary_base, "Base of the rotary positions.");
    rotary_base(k.local_rotary_base, "Base of the rotary positions in layers with a window.");
    add({k.rotary_share.name, number, fmt::format("{}", k.rotary_share.usual),
         "Part of a head's elements that are rotated.", [](key_info& r) { r.at_least(1e-6).at_most(1); }});
    add({"rope_scaling", object, "none",
         "Scaling of the rotary positions, by its rope_type: default, linear, dynamic, llama3, yarn or longrope."});
    add({"rope_parameters", object, "none", "The newer form of rope_theta and rope_scaling."});
  }
  for (const auto& key : k.unread)
    add({key.name, type_of(key.type), "none", "Kept for other programs.",
         [reason = key.reason](key_info& r) { say_unread(r, reason); }});
  return out;
}

/// A key of config.json that one or more families read. `defaults` has the name of each family and the key's default
/// there.
struct shared_key {
  family_key key;
  std::vector<std::pair<std::string_view, std::string>> defaults;
};

std::string default_of(const shared_key& s) {
  if (std::ranges::all_of(s.defaults, [&](const auto& d) { return d.second == s.key.by_default; }))
    return s.key.by_default;
  std::vector<std::string> each;
  for (const auto& [family, by_default] : s.defaults) each.push_back(fmt::format("{} ({})", by_default, family));
  return fmt::format("{}", fmt::join(each, ", "));
}

/// Adds the keys of all families, beginning with the keys that every family reads. A key that several families read
/// is one row.
void add_family_keys(key_rows& t) {
  std::vector<shared_key> all;
  for (const families::family* f : families::all)
    for (family_key& key : keys_of(*f)) {
      auto at = std::ranges::find(all, key.name, [](const shared_key& s) { return s.key.name; });
      if (at == all.end()) at = all.insert(all.end(), {key, {}});
      at->defaults.emplace_back(f->model_type, std::move(key.by_default));
    }
  std::ranges::stable_partition(all, [](const shared_key& s) { return s.defaults.size() == families::all.size(); });
  for (const shared_key& s : all) {
    key_info& row = t.row(fmt::format("model.{}", s.key.name), s.key.type).by_default(default_of(s)).in_model();
    row.means(s.key.meaning);
    s.key.limits(row);
    // Files of transformers have null for a size that follows from others, and for the absence of a window.
    if (s.key.takes_null || std::ranges::any_of(s.defaults, [](const auto& d) { return d.second == "none"; }))
      row.or_null();
    if (s.defaults.size() == families::all.size()) continue;
    for (const auto& [family, by_default] : s.defaults) row.types.families.push_back(family);
  }
}

/// Adds the keys that every family reads or ignores.
void add_shared_keys(key_rows& t) {
  const auto row = [&](const char* name, value_type type, const char* by_default) -> key_info& {
    return t.row(std::string("model.") + name, type).by_default(by_default).in_model();
  };
  std::vector<std::string_view> names;
  for (const families::family* f : families::all) names.push_back(f->model_type);
  row("model_type", text, "none").one_of(std::move(names)).means("The family of the model.");
  for (const char* name : {"bos_token_id", "eos_token_id", "architectures", "transformers_version", "_name_or_path",
                           "use_cache", "task_specific_params", "pretraining_tp"})
    say_unread(row(name, any, "none").means("Kept for other programs."), {});
  row("pad_token_id", integer, "none")
      .or_null()
      .at_least(-most_size)
      .at_most(most_size - 1)
      .means(
          "Token whose embedding begins as 0 and gets no gradient as an input, as in transformers; below 0: from the "
          "end. None: transformers' token of the family, if the vocabulary has it. gpt2 and gpt_neox ignore it.");
  for (const char* name : {"torch_dtype", "dtype"})
    say_unread(row(name, any, "none").means("Kept for other programs."), "the run's own precision keys decide");
}

}  // namespace

void add_model_keys(key_rows& t) {
  t.row("model", section).means("The model: Hugging Face's config.json keys, or the folder that holds them.");
  t.row("model.path", path)
      .into<&job_config::model, &model_section::path>()
      .means(
          "A Hugging Face folder: config.json and, where there are any, weights; or one of its indices or files of "
          "weights, by name. Excludes all other model keys.");
  t.row("model.teacher", path)
      .into<&job_config::model, &model_section::teacher>()
      .means(
          "A trained model: layer_reduction begins with its layers (any checkpoint), and distillation, which wants a "
          "Hugging Face folder, learns from it.");
  t.row("model.dequantise", boolean)
      .into<&job_config::model, &model_section::dequantise>()
      .by_default("false")
      .means(
          "Begin with compressed weights (compressed-tensors, a GGUF file's blocks) as the values that their codes "
          "mean: "
          "of path, of teacher, and of checkpoint.load. Without it such weights are refused.");
  t.row("model.ignore_keys", texts)
      .into<&job_config::model, &model_section::ignore_keys>()
      .by_default("[]")
      .means(
          "Keys of a config.json, of path, of teacher or of a checkpoint, that are read as if they were not there; "
          "rope_scaling.NAME is a key within one. A key that Troupe does not know is refused without, and a checkpoint "
          "whose key differs from this model's. A name that Troupe does not know and none of them has is refused.");
  add_shared_keys(t);
  add_family_keys(t);
}

}  // namespace troupe::config
