#include "models/table/config_keys.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/json_text.hpp"
#include "core/text.hpp"

namespace troupe::models {
namespace {

using json = nlohmann::json;

/// Keys that transformers, its trainers or the hub write, and that change no logit of a causal language model in
/// Troupe.
constexpr std::string_view harmless[] = {
    // keys about the file
    "architectures", "auto_map", "transformers_version", "_name_or_path", "name_or_path", "_commit_hash",
    "transformers.js_config", "custom_pipelines", "language", "license", "tags", "base_model",
    "keys_to_ignore_at_inference", "_from_model_config", "unsloth_fixed", "unsloth_version", "is_llama_config",
    "quantization_config", "compression_config",
    // keys about how the model is stored and run
    "dtype", "torch_dtype", "use_bfloat16", "torchscript", "tf_legacy_loss", "xla_device", "gradient_checkpointing",
    "return_dict", "use_return_dict", "output_hidden_states", "output_attentions", "use_cache", "output_past",
    "attn_implementation", "_attn_implementation", "_attn_implementation_internal", "_attn_implementation_autoset",
    "experts_implementation", "_experts_implementation", "_experts_implementation_internal", "_flash_attn_2_enabled",
    "use_flash_attention", "use_flash_attn", "chunk_size_feed_forward", "pretraining_tp", "tie_last_hidden_states",
    // keys of other tasks' heads
    "finetuning_task", "id2label", "label2id", "num_labels", "_num_labels", "problem_type", "task_specific_params",
    "classifier_dropout", "classifier_bias", "loss_type",
    // keys of the tokenizer
    "tokenizer_class", "prefix", "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id",
    "mask_token_id", "unk_token_id", "decoder_start_token_id", "pad_token", "bos_token", "eos_token", "unk_token",
    "model_max_length", "max_sequence_length", "is_decoder", "max_window_layers",
    // keys of text generation
    "assistant_confidence_threshold", "assistant_early_exit", "assistant_ensemble_weight", "assistant_lookbehind",
    "bad_words_ids", "begin_suppress_tokens", "cache_config", "cache_implementation", "compile_config", "constraints",
    "continuous_batching_config", "disable_compile", "diversity_penalty", "do_sample", "dola_layers", "early_stopping",
    "encoder_no_repeat_ngram_size", "encoder_repetition_penalty", "epsilon_cutoff", "eta_cutoff",
    "exponential_decay_length_penalty", "force_words_ids", "forced_bos_token_id", "forced_decoder_ids",
    "forced_eos_token_id", "generation_kwargs", "guidance_scale", "is_assistant", "length_penalty", "low_memory",
    "max_cache_len", "max_length", "max_matching_ngram_size", "max_new_tokens", "max_time", "min_length",
    "min_new_tokens", "min_p", "no_repeat_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "num_beam_groups", "num_beams", "num_return_sequences", "output_logits", "output_scores", "penalty_alpha",
    "prefill_chunk_size", "prompt_lookup_num_tokens", "remove_invalid_values", "renormalize_logits",
    "repetition_penalty", "return_dict_in_generate", "return_legacy_cache", "sequence_bias", "speculation_type",
    "stop_strings", "suppress_tokens", "target_lookbehind", "temperature", "token_healing", "top_h", "top_k", "top_p",
    "typical_p", "use_mtp", "watermarking_config"};

struct value_row {
  std::string_view key;
  /// The one value, as JSON text, that the key may have; null and an absent key are allowed, too.
  std::string_view allowed;
};

/// Keys that would change the model, so they are refused unless they have the value in their row.
constexpr value_row valued[] = {{"is_encoder_decoder", "false"},
                                {"add_cross_attention", "false"},
                                {"tie_encoder_decoder", "false"},
                                {"cross_attention_hidden_size", "null"},
                                {"pruned_heads", "{}"},
                                {"per_layer_config", "null"},
                                {"sliding_window", "null"},
                                {"attention_window_size", "null"},
                                {"use_sliding_window", "false"},
                                {"attention_chunk_size", "null"},
                                {"num_local_experts", "0"},
                                {"num_experts", "0"},
                                {"n_routed_experts", "0"},
                                {"num_experts_per_tok", "0"},
                                {"partial_rotary_factor", "1"},
                                {"rotary_pct", "1"},
                                {"rope_interleaved", "false"},
                                {"no_rope_layers", "[]"},
                                {"logit_scale", "1"},
                                {"logits_scaling", "1"},
                                {"embedding_multiplier", "1"},
                                {"residual_multiplier", "1"},
                                {"attention_multiplier", "null"},
                                {"query_pre_attn_scalar", "null"},
                                {"attn_logit_softcapping", "null"},
                                {"final_logit_softcapping", "null"},
                                {"clip_qkv", "null"},
                                {"qk_norm", "false"},
                                {"use_qk_norm", "false"},
                                {"qk_layernorm", "false"},
                                {"qkv_bias", "false"},
                                {"use_parallel_residual", "false"},
                                {"parallel_attn", "false"},
                                {"alibi", "false"}};

/// Keys inside the objects rope_scaling and rope_parameters that have no effect with a rope_type that does not read
/// them.
constexpr std::string_view harmless_rotary[] = {
    "rope_type",    "type",        "rope_theta", "factor",          "attention_factor",
    "beta_fast",    "beta_slow",   "truncate",   "low_freq_factor", "high_freq_factor",
    "short_factor", "long_factor", "mscale",     "mscale_all_dim",  "original_max_position_embeddings"};
constexpr value_row valued_rotary[] = {{"partial_rotary_factor", "1"}};

bool is_in(std::span<const std::string_view> list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

const value_row* row_of(std::span<const value_row> rows, std::string_view name) {
  const auto at = std::ranges::find(rows, name, &value_row::key);
  return at == rows.end() ? nullptr : &*at;
}

bool is_allowed(std::string_view allowed, const json& value) {
  if (value.is_null()) return true;
  const auto only = core::parse_json<json>(allowed);
  return only && *only == value;
}

/// True if `value`, the list in which transformers 5 names each layer's kind of attention, names full attention for
/// every layer.
bool names_full_attention(const json& value) {
  return value.is_null() || (value.is_array() && std::ranges::all_of(value, is_full_attention));
}

spec_problem problem_of_value(const std::string& key, std::string_view wanted, const json& value) {
  return {key,
          {error_kind::bad_input, "model key '" + key + "': wanted " + std::string(wanted) + ", got " +
                                      json_shown(value) + ", which is not supported"}};
}

bool is_harmless_key(const families::family& f, const std::string& name) {
  return name == "layer_types" || is_in(harmless, name) ||
         std::ranges::find(f.keys.unread, name, &families::unread_key::name) != f.keys.unread.end();
}

/// Returns an error for each of `names` whose row in `rows` allows another value than `object` has; appends to
/// `unknown` the names that have no row and are not harmless.
std::vector<spec_problem> problems_by(std::span<const value_row> rows, const json& object,
                                      std::span<const std::string> names, std::vector<std::string>& unknown,
                                      auto&& is_harmless) {
  std::vector<spec_problem> out;
  for (const auto& name : names) {
    const auto& value = object.at(name);
    if (const auto* row = row_of(rows, name)) {
      if (is_allowed(row->allowed, value)) continue;
      out.push_back(problem_of_value(name, row->allowed, value));
    } else if (!is_harmless(name)) {
      unknown.push_back(name);
    }
  }
  return out;
}

/// Returns one error that lists the unknown `names`, at most five of them. `in_front` is put before each name in the
/// option that ignores it, such as "rope_scaling.".
spec_problem unknown_keys(const std::vector<std::string>& names, const std::string& in_front = {}) {
  std::string list, flags;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 5); ++i) {
    const auto shown = json_shown(json(names[i].substr(0, 80)));
    list += (i == 0 ? "'" : ", '") + shown.substr(1, shown.size() - 2) + "'";
    flags += " --ignore-key " + in_front + shown.substr(1, shown.size() - 2);
  }
  if (names.size() > 5) list += fmt::format(" and {} more", names.size() - 5);
  return {names.front(),
          {error_kind::bad_input,
           std::string("model key") + (names.size() == 1 ? " " : "s ") + list + (names.size() == 1 ? " is" : " are") +
               " not known and may change the model: if it does not, remove it, or ignore it with" + flags +
               " (model.ignore_keys in a job file)"},
          true};
}

/// Appends to `out` the names of keys of `object`, an object of rotary positions called `in`, that no table has; it may
/// consist of objects for the layers' kinds of attention.
void add_unknown_rotary(const std::string& in, const json& object, std::vector<std::string>& out) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object())
      add_unknown_rotary(in + "." + name, value, out);
    else if (row_of(valued_rotary, name) == nullptr && !is_in(harmless_rotary, name))
      out.push_back(in + "." + name);
  }
}

}  // namespace

std::string json_shown(const json& value) {
  const std::string out = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return core::shown(out, out.size() > 80 ? 77 : 80);
}

bool is_full_attention(const json& kind) { return kind == "full_attention" || kind == "attention"; }

std::vector<spec_problem> unread_problems(const families::family& f, const json& object,
                                          std::span<const std::string> names) {
  std::vector<std::string> unknown;
  auto out =
      problems_by(valued, object, names, unknown, [&](const std::string& name) { return is_harmless_key(f, name); });
  if (std::ranges::find(names, "layer_types") != names.end() && !names_full_attention(object.at("layer_types")))
    out.push_back(problem_of_value("layer_types", "full_attention in every layer", object.at("layer_types")));
  if (!unknown.empty()) out.push_back(unknown_keys(unknown));
  return out;
}

std::vector<spec_problem> unread_rotary_problems(std::string_view in, const json& object,
                                                 std::span<const std::string> names) {
  std::vector<std::string> unknown;
  auto out = problems_by(valued_rotary, object, names, unknown,
                         [](const std::string& name) { return is_in(harmless_rotary, name); });
  if (!unknown.empty()) out.push_back(unknown_keys(unknown, std::string(in) + "."));
  return out;
}

std::vector<std::string> unknown_names(const families::family& f, const json& object,
                                       std::span<const std::string> names) {
  std::vector<std::string> out;
  for (const auto& name : names)
    if (row_of(valued, name) == nullptr && !is_harmless_key(f, name)) out.push_back(name);
  for (const char* rope : {"rope_scaling", "rope_parameters"})
    if (const auto at = object.find(rope); at != object.end() && at->is_object()) add_unknown_rotary(rope, *at, out);
  return out;
}

}  // namespace troupe::models
