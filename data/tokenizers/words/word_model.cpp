// Reads the key `model` of a tokenizer.json.
#include "data/tokenizers/words/word_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "data/tokenizers/text/byte_alphabet.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {
namespace {

using json = nlohmann::json;

/// Reads `vocab` as an object of words and their numbers.
core::result<void> read_numbered_words(const json& vocab, model_words& out) {
  if (!vocab.is_object() || vocab.empty()) return core::refused("vocab: wanted words and their numbers");
  for (const auto& [word, number] : vocab.items()) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() >= max_vocabulary)
      return core::refused(
          fmt::format("vocab: the word '{}': wanted a number below {}", core::shown(word), max_vocabulary));
    const auto token = number.get<uint32_t>();
    if (token >= out.text_of.size()) out.text_of.resize(token + 1);
    if (!out.text_of[token].empty())
      return core::refused(fmt::format("vocab: the words '{}' and '{}' have the number {}",
                                       core::shown(out.text_of[token]), core::shown(word), token));
    out.text_of[token] = word;
    out.token_of.emplace(word, token);
  }
  return {};
}

/// Reads `vocab` as a list of words with their scores.
core::result<void> read_scored_words(const json& vocab, model_words& out) {
  if (!vocab.is_array() || vocab.empty() || vocab.size() > max_vocabulary)
    return core::refused("vocab: wanted a list of words and scores");
  for (const auto& one : vocab) {
    if (!one.is_array() || one.size() != 2 || !one[0].is_string() || !one[1].is_number())
      return core::refused(fmt::format("vocab: number {}: wanted a word and its score", out.text_of.size()));
    out.token_of[one[0].get<std::string>()] = static_cast<uint32_t>(out.text_of.size());
    out.text_of.push_back(one[0]);
    out.scores.push_back(one[1].get<double>());
  }
  return {};
}

core::result<std::vector<std::pair<std::string, std::string>>> read_pairs(const json& merges) {
  std::vector<std::pair<std::string, std::string>> out;
  if (!merges.is_array()) return core::refused("merges: wanted a list");
  for (const auto& m : merges) {
    if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
      out.emplace_back(m[0].get<std::string>(), m[1].get<std::string>());
      continue;
    }
    const auto text = m.is_string() ? m.get<std::string>() : std::string();
    const size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos)
      return core::refused(fmt::format("merges: number {}: wanted two words", out.size() + 1));
    out.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return out;
}

/// Returns the token that the key names by its text; nullopt if the key is missing.
core::result<std::optional<uint32_t>> named_token(const json& model, const char* key, const model_words& words) {
  if (json_value_of(model, key).is_null()) return std::nullopt;
  const auto text = json_text_of(model, key);
  const auto found = words.find(text);
  if (!found) return core::refused(fmt::format("{}: '{}' is not in the vocabulary", key, core::shown(text)));
  return found;
}

core::result<void> refuse_if_set(const json& model, const char* key, std::string_view why) {
  const auto& value = json_value_of(model, key);
  if (value.is_null() || (value.is_number() && value.get<double>() == 0)) return {};
  return core::refused(fmt::format("{}: wanted null, since {} is not supported, got {}", key, why, value.dump()));
}

core::result<void> read_pair_model(const json& model, bool is_byte_level, model_in_file& out) {
  TROUPE_TRY(check_pair_keys(model));
  TROUPE_TRY(refuse_if_set(model, "dropout", "dropping merges at random"));
  TROUPE_TRY(read_numbered_words(json_value_of(model, "vocab"), out.words));
  TROUPE_ASSIGN(const auto merges, read_pairs(json_value_of(model, "merges")));
  pair_options options;
  options.is_byte_level = is_byte_level;
  options.takes_whole_words = json_flag_of(model, "ignore_merges", false);
  options.has_byte_tokens = !is_byte_level && json_flag_of(model, "byte_fallback", false);
  options.fuses_unknown = json_flag_of(model, "fuse_unk", false);
  TROUPE_ASSIGN(options.unknown, named_token(model, "unk_token", out.words));
  options.prefix = json_text_of(model, "continuing_subword_prefix");
  options.suffix = json_text_of(model, "end_of_word_suffix");
  const byte_alphabet alphabet;
  if (is_byte_level && options.prefix.empty() && options.suffix.empty()) {
    const auto lost = alphabet.missing([&](const std::string& word) { return out.words.find(word).has_value(); });
    if (const auto fault = alphabet.fault_without(lost, options.unknown.has_value()))
      return core::refused(fmt::format("vocab: {}", *fault));
    out.lost_bytes = lost;
  }
  for (const auto& [left, right] : merges) out.identity += fmt::format("{} {}\n", left, right);
  TROUPE_ASSIGN(out.model, make_pair_model(out.words, merges, std::move(options)));
  out.kind = "byte-pairs";
  return {};
}

core::result<void> read_unigram_model(const json& model, model_in_file& out) {
  TROUPE_TRY(check_known_keys(model, {"type", "unk_id", "vocab", "byte_fallback", "alpha", "nbest_size"}));
  for (const char* key : {"alpha", "nbest_size"}) TROUPE_TRY(refuse_if_set(model, key, "sampling"));
  TROUPE_TRY(read_scored_words(json_value_of(model, "vocab"), out.words));
  std::optional<uint32_t> unknown;
  if (const auto& id = json_value_of(model, "unk_id"); !id.is_null()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= out.words.text_of.size())
      return core::refused(
          fmt::format("unk_id: wanted a number below {}, got {}", out.words.text_of.size(), id.dump()));
    unknown = id.get<uint32_t>();
  }
  for (const double score : out.words.scores) out.identity += core::number_text(score) + "\n";
  out.model = make_unigram_model(out.words, unknown, json_flag_of(model, "byte_fallback", false));
  out.kind = "unigram";
  return {};
}

core::result<void> read_piece_model(const json& model, model_in_file& out) {
  TROUPE_TRY(
      check_known_keys(model, {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}));
  TROUPE_TRY(read_numbered_words(json_value_of(model, "vocab"), out.words));
  TROUPE_ASSIGN(const auto unknown, named_token(model, "unk_token", out.words));
  if (!unknown) return core::refused("unk_token: wanted the token of unknown words");
  const auto& most = json_value_of(model, "max_input_chars_per_word");
  constexpr uint64_t usual_most_characters = 100;
  const bool has_prefix = !json_value_of(model, "continuing_subword_prefix").is_null();
  out.model = make_piece_model(out.words, *unknown,
                               has_prefix ? json_text_of(model, "continuing_subword_prefix") : std::string("##"),
                               most.is_number_unsigned() ? most.get<uint64_t>() : usual_most_characters);
  out.kind = "wordpiece";
  return {};
}

}  // namespace

std::vector<std::optional<uint32_t>> byte_tokens(const model_words& words) {
  std::vector<std::optional<uint32_t>> out;
  for (uint32_t b = 0; b < 256; ++b) out.push_back(words.find(fmt::format("<0x{:02X}>", b)));
  return out;
}

core::result<void> check_pair_keys(const json& model) {
  return check_known_keys(model, {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                                  "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges", "cache_capacity"});
}

core::result<model_in_file> read_word_model(const json& model, bool is_byte_level) {
  model_in_file out;
  const auto type = json_value_of(model, "type").is_null() ? "BPE" : json_text_of(model, "type");
  auto options = model;
  if (options.is_object()) {
    options.erase("vocab");
    options.erase("merges");
    options.erase("cache_capacity");
  }
  out.identity = options.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
  if (type == "BPE")
    TROUPE_TRY(read_pair_model(model, is_byte_level, out));
  else if (is_byte_level)
    return core::refused(fmt::format("the model {} after ByteLevel is not supported", core::shown(type)));
  else if (type == "Unigram")
    TROUPE_TRY(read_unigram_model(model, out));
  else if (type == "WordPiece")
    TROUPE_TRY(read_piece_model(model, out));
  else
    return core::refused(fmt::format("type: wanted BPE, Unigram or WordPiece, got '{}'", core::shown(type)));
  for (const auto& text : out.words.text_of) out.identity += text + "\n";
  return out;
}

}  // namespace troupe::data
