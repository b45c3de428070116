#include "job/model/folder_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/convert/folder_contents.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "core/json_text.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "formats/names/name_map.hpp"
#include "formats/names/tied_names.hpp"
#include "formats/names/wrapper_names.hpp"
#include "formats/report/inspect.hpp"
#include "models/table/config_keys.hpp"

namespace troupe::job {
namespace {

namespace fs = std::filesystem;
using models::model_spec;

constexpr const char* description_name = "config.json";
constexpr const char* tie_key = "tie_word_embeddings";

bool is_ignored(std::span<const std::string> ignored, std::string_view key) {
  return std::ranges::find(ignored, key) != ignored.end();
}

/// True if the source has a tensor for the head, which a model with a tied head may lack.
bool has_own_head(const formats::tensor_source& s) {
  return std::ranges::any_of(s.tensors, [](const auto& t) {
    return t.kind != formats::tensor_kind::moment && formats::bare_name(t.name) == formats::head_name;
  });
}

/// Opens the weights of a folder in a format that --resume and model.path read; nullopt if the folder has none.
std::optional<formats::tensor_source> weights_in(const fs::path& folder) {
  const auto format = checkpoint::recognise(folder);
  if (!format || !(*format)->is_model_folder) return std::nullopt;
  auto opened = checkpoint::open_source(folder);
  return opened ? std::optional(std::move(*opened)) : std::nullopt;  // the code that loads the folder reports the error
}

/// Returns a sentence about the tensors of a source that the model does not have because an encoder uses them for other
/// tasks, such as its pooler; empty if there are none.
std::string left_out_of(const formats::tensor_source& s, const model_spec& spec) {
  std::vector<std::string> names;
  for (const auto& t : s.tensors) {
    const auto bare = formats::bare_name(t.name);
    const auto begins = [&](std::string_view begin) { return bare.starts_with(begin); };
    if (t.kind != formats::tensor_kind::moment && !bare.ends_with(".position_ids") &&
        std::ranges::any_of(spec.family->unread_tensors, begins))
      names.push_back(core::shown(t.name));
  }
  if (names.empty()) return {};
  const auto further = names.size() == 1 ? std::string() : fmt::format(" and {} more", names.size() - 1);
  return fmt::format("'{}': {}{} belong to other tasks and are left out, as in {}", formats::shown_place(s),
                     names.front(), further, spec.family->architecture);
}

/// Returns the keys that describe the model of a source; empty if the source has no description.
core::result<std::string> described_by(const formats::tensor_source& from) {
  if (from.run.model.starts_with('{')) return from.run.model;
  for (const auto& folder : {fs::path(from.run.model), from.folder}) {
    std::error_code e;
    if (!folder.empty() && fs::is_regular_file(folder / description_name, e))
      return core::read_file(folder / description_name, models::max_model_keys_bytes);
  }
  return std::string();
}

std::string shown_token(std::optional<uint32_t> token) { return token ? fmt::to_string(*token) : "none"; }

/// Compares the sizes and choices of a checkpoint's model with those of the run's model, key by key, up to the first
/// difference.
class model_comparison {
 public:
  /// `compares_padding`: the checkpoint's description names the token without a gradient, or says that there is none.
  model_comparison(const model_spec& theirs, const model_spec& ours, std::span<const std::string> ignored,
                   bool compares_padding)
      : theirs_(theirs),
        ours_(ours),
        ignored_(ignored),
        compares_padding_(compares_padding),
        their_keys_(keys_of(theirs)),
        our_keys_(keys_of(ours)) {}

  /// Returns "n_head is 12 there and 16 in this run's model", or an empty string if nothing differs.
  std::string run() {
    const auto& keys = ours_.family->keys;
    number(keys.heads.name, theirs_.heads, ours_.heads);
    number(keys.kv_heads.name, theirs_.kv_heads, ours_.kv_heads);
    number(keys.head_width.name, theirs_.head_width, ours_.head_width);
    for (uint32_t b = 0; b < std::min(theirs_.layers, ours_.layers); ++b) layer(b);
    flag(keys.scales_scores.name, theirs_.scales_scores, ours_.scales_scores);
    flag(keys.scales_by_layer.name, theirs_.scales_by_layer, ours_.scales_by_layer);
    const auto their_scores = theirs_.attention_in(0), our_scores = ours_.attention_in(0);
    number(keys.attention_scale.name, their_scores.scale, our_scores.scale);
    if (differ_as_numbers(their_scores.scale, our_scores.scale))
      text(keys.score_width.name, shown_value(their_keys_, keys.score_width.name, keys.score_width.usual),
           shown_value(our_keys_, keys.score_width.name, keys.score_width.usual));
    number(keys.attention_soft_cap.name, their_scores.soft_cap, our_scores.soft_cap);
    number(keys.logit_soft_cap.name, theirs_.logits.soft_cap, ours_.logits.soft_cap);
    number(keys.embedding_scale.name, theirs_.embedding_scale, ours_.embedding_scale);
    number(keys.residual_scale.name, theirs_.residual_scale, ours_.residual_scale);
    number(keys.logit_divisor.name, theirs_.logits.divisor, ours_.logits.divisor);
    if (ours_.family->is_rotary()) {
      number(keys.rotary_base.name, theirs_.rope.theta, ours_.rope.theta);
      number(keys.local_rotary_base.name, theirs_.local_rope.theta, ours_.local_rope.theta);
      number(keys.rotary_share.name, theirs_.rotary_share, ours_.rotary_share);
      text("rope_scaling", text_of(theirs_.rope), text_of(ours_.rope));
      if (!keys.local_rotary_base.name.empty())
        text("rope_parameters", text_of(theirs_.local_rope), text_of(ours_.local_rope));
    }
    number(keys.parallel_residual.name, theirs_.parallel_residual, ours_.parallel_residual);
    if (compares_padding_)
      text(keys.padding.name, shown_token(theirs_.padding_token), shown_token(ours_.padding_token));
    number(keys.norm_epsilon.name, theirs_.norm_epsilon, ours_.norm_epsilon);
    text(keys.activation, std::string(models::name_of(theirs_.act)), std::string(models::name_of(ours_.act)));
    flag(tie_key, theirs_.tied, ours_.tied);
    return found_;
  }
  [[nodiscard]] const std::string& key() const { return key_; }

 private:
  /// Compares two numbers; an empty `key` marks a number that the family derives from other keys, which is not
  /// compared.
  void number(std::string_view key, double theirs, double ours) {
    if (!key.empty() && differ_as_numbers(theirs, ours))
      differ(key, core::number_text(theirs), core::number_text(ours));
  }
  /// Numbers in a file's metadata may be rounded to fp32, so numbers with equal fp32 values count as equal.
  static bool differ_as_numbers(double theirs, double ours) {
    return theirs != ours && static_cast<float>(theirs) != static_cast<float>(ours);
  }
  void text(std::string_view key, const std::string& theirs, const std::string& ours) {
    if (!key.empty() && theirs != ours) differ(key, theirs, ours);
  }

  void flag(std::string_view key, bool theirs, bool ours) {
    text(key, theirs ? "true" : "false", ours ? "true" : "false");
  }

  /// Compares the attention of block `b`: its window, and whether it has positions or those of layers with a window.
  void layer(uint32_t b) {
    const auto& keys = ours_.family->keys;
    if (keys.window.name.empty() && keys.rotated_layers.empty()) return;
    const int64_t their_window = theirs_.attention_in(b).window, our_window = ours_.attention_in(b).window;
    if (their_window > 0 && our_window > 0)
      number(keys.window.name, static_cast<double>(their_window), static_cast<double>(our_window));
    if (theirs_.rotation_in(b) != ours_.rotation_in(b) || (their_window > 0) != (our_window > 0)) choice_of_layer(b);
  }

  /// Names the first of the keys that choose the attention of block `b` whose values differ.
  void choice_of_layer(uint32_t b) {
    using json = nlohmann::json;
    const auto& k = ours_.family->keys;
    const std::pair<std::string_view, json> choices[] = {{k.window_switch.name, k.window_switch.usual},
                                                         {"layer_types", nullptr},
                                                         {k.rotated_layers, nullptr},
                                                         {k.unrotated_every.name, k.unrotated_every.usual},
                                                         {k.full_layers.name, k.full_layers.usual},
                                                         {k.full_every.name, k.full_every.usual},
                                                         {k.window.name, k.window.usual}};
    for (const auto& [key, usual] : choices) {
      if (key.empty() || value_in(their_keys_, key, usual) == value_in(our_keys_, key, usual)) continue;
      if (key != "layer_types" && key != k.rotated_layers)
        return differ(key, shown_value(their_keys_, key, usual), shown_value(our_keys_, key, usual));
      return differ(key, shown_layer(theirs_, b), shown_layer(ours_, b));
    }
    const std::string_view key = k.window.name.empty() ? k.rotated_layers : k.window.name;
    differ(key, shown_layer(theirs_, b), shown_layer(ours_, b));
  }

  /// Returns the kind of attention of block `b` as config.json names it, "sliding_attention in layer 3".
  static std::string shown_layer(const model_spec& spec, uint32_t b) {
    return fmt::format("{}{} in layer {}", spec.attention_in(b).window > 0 ? "sliding_attention" : "full_attention",
                       spec.rotation_in(b) == models::rotation::none ? " without positions" : "", b);
  }
  static nlohmann::json keys_of(const model_spec& spec) {
    const auto keys = core::parse_json(spec.hugging_face_json, models::max_model_keys_depth);
    return keys && keys->is_object() ? *keys : nlohmann::json::object();
  }
  /// Returns the value of a key, or `usual` if the key is absent; a null counts as a value.
  static nlohmann::json value_in(const nlohmann::json& keys, std::string_view key, const nlohmann::json& usual) {
    const auto at = keys.find(std::string(key));
    return at == keys.end() ? usual : *at;
  }
  static std::string shown_value(const nlohmann::json& keys, std::string_view key, const nlohmann::json& usual) {
    return models::json_shown(value_in(keys, key, usual));
  }

  void differ(std::string_view key, const std::string& theirs, const std::string& ours) {
    if (!found_.empty() || is_ignored(ignored_, key)) return;
    key_ = key;
    found_ = std::string(key) + " is " + theirs + " there and " + ours + " in this run's model";
  }

  const model_spec &theirs_, &ours_;
  std::span<const std::string> ignored_;
  bool compares_padding_;
  nlohmann::json their_keys_, our_keys_;
  std::string key_, found_;
};

tl::unexpected<core::error> other_model(const formats::tensor_source& from, const std::string& why,
                                        const std::string& key) {
  return core::fail(error_kind::mismatch, "'" + formats::shown_place(from) + "' describes another model: " + why +
                                              ": give this run the model's own keys (model.path, or model." + key +
                                              "), or load it nevertheless by model.ignore_keys: [" + key + "]");
}

}  // namespace

core::result<model_spec> read_folder_model(const fs::path& folder, std::span<const std::string> ignored) {
  auto spec = models::read_spec(folder, ignored);
  if (!spec) return spec;
  if (const auto adapter = formats::unused_adapter_in(folder))
    spec->remark = "'" + folder.string() + "' holds " + *adapter;
  if (!spec->tied || is_ignored(ignored, tie_key)) return spec;
  auto weights = weights_in(folder);
  if (!weights) return spec;
  if (const auto parts = left_out_of(*weights, *spec); !parts.empty())
    spec->remark += (spec->remark.empty() ? "" : "; ") + parts;
  if (spec->family->is_encoder) return spec;  // the code that loads the folder refuses a head with other values
  TROUPE_ASSIGN(const auto settled,
                formats::settle_tied_head(std::move(*weights), std::string(spec->family->model_type)));
  if (settled.own_values.empty()) return spec;
  spec->tied = false;
  spec->remark += (spec->remark.empty() ? "" : "; ") + settled.own_values;
  spec->hugging_face_json = models::with_untied_head(spec->hugging_face_json);
  return spec;
}

std::optional<std::string> unused_ignored_key(const config::model_section& job, const model_spec& model,
                                              const formats::tensor_source* loaded) {
  std::vector<std::pair<std::string, std::string>> all;  // [description]: where it is, and its text
  const auto add = [&](std::string place, std::string keys) { all.emplace_back(std::move(place), std::move(keys)); };
  add(job.path.empty() ? "the job's own model" : "the config.json of '" + job.path.string() + "'",
      model.hugging_face_json);
  if (!job.teacher.empty()) {
    const auto teacher = models::read_spec(job.teacher, job.ignore_keys);
    if (!teacher) return std::nullopt;
    add("the config.json of '" + job.teacher.string() + "'", teacher->hugging_face_json);
  }
  if (loaded != nullptr) {
    auto text = described_by(*loaded);
    if (text && !text->empty()) add("the model of '" + formats::shown_place(*loaded) + "'", std::move(*text));
  }
  for (const auto& key : job.ignore_keys) {
    if (models::is_known_key(*model.family, key)) continue;
    std::string out;
    bool is_there = false;
    for (const auto& [place, keys] : all) {
      const auto absent = models::absent_key(keys, {&key, 1});
      is_there |= !absent;
      if (absent) out += (out.empty() ? "" : "; ") + place + " " + *absent;
    }
    if (!is_there) return out;
  }
  return std::nullopt;
}

core::result<void> check_described_model(formats::tensor_source& from, const model_spec& model,
                                         std::span<const std::string> ignored) {
  if (is_ignored(ignored, "model_type")) return {};
  std::string own_head;
  if (model.tied && !is_ignored(ignored, tie_key)) {
    TROUPE_ASSIGN(auto settled, formats::settle_tied_head(from, std::string(model.family->model_type)));
    own_head = std::move(settled.own_values);
    from = std::move(settled.source);
  }
  const auto tied_here = [&]() -> core::result<void> {
    if (own_head.empty()) return {};
    return other_model(from,
                       "its head has other values than its embedding, and tie_word_embeddings is true in this run's "
                       "model",
                       tie_key);
  };
  TROUPE_ASSIGN(const auto text, described_by(from));
  if (text.empty()) return tied_here();
  const auto problems = models::problems_of(text, ignored);
  // The checkpoint's description is not one of a model, so only its head is compared.
  if (!problems.empty() && problems.front().key.empty()) return tied_here();
  if (!problems.empty()) return other_model(from, problems.front().what.text, problems.front().key);
  TROUPE_ASSIGN(auto theirs, models::parse_model_spec(text, ignored));
  if (!model.tied && theirs.tied && has_own_head(from)) theirs.tied = false;
  // Families of one architecture in GGUF files, such as Llama and Mistral, compute alike.
  const auto& architecture = model.family->gguf.architecture;
  if (theirs.family != model.family && (architecture.empty() || theirs.family->gguf.architecture != architecture))
    return other_model(from, "model_type is of another family than this run's model", "model_type");
  TROUPE_TRY(tied_here());
  // A GGUF file has the padding token of its vocabulary alone, which need not be the model's.
  model_comparison compared(theirs, model, ignored, /*compares_padding=*/!from.format.starts_with("GGUF"));
  const auto difference = compared.run();
  return difference.empty() ? core::result<void>() : other_model(from, difference, compared.key());
}

}  // namespace troupe::job
