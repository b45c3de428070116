#include "data/tokenizers/files/gguf_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "core/source_file.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/tokenizers/files/named_rules.hpp"
#include "data/tokenizers/files/sentencepiece_writer.hpp"
#include "data/tokenizers/files/word_merges.hpp"
#include "data/tokenizers/text/base64.hpp"
#include "data/tokenizers/text/sentencepiece_rules.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "formats/gguf/header.hpp"

namespace troupe::data {
namespace {

using formats::gguf_metadata;
using formats::gguf_value_type;
using json = nlohmann::json;

constexpr std::string_view ggml = "tokenizer.ggml.";
constexpr std::string_view template_key = "tokenizer.chat_template";
/// The character by which pieces represent a space.
constexpr std::string_view space_sign = "\xE2\x96\x81";
/// Name, after `tokenizer.ggml.`, of the key whose value is a table of rules that rewrite characters.
constexpr const char* charsmap_key = "precompiled_charsmap";
/// Pattern of the spaces at the end of a text, and of the signs for spaces there.
constexpr std::string_view spaces_at_end = "[ \xE2\x96\x81]+(?![\\s\\S])";

std::string ggml_key(std::string_view name) { return std::string(ggml).append(name); }

/// Returns the text with all `from` replaced by `to`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = 0;;) {
    const size_t found = text.find(from, at);
    out += text.substr(at, found == text.npos ? text.npos : found - at);
    if (found == text.npos) return out;
    out += to;
    at = found + from.size();
  }
}

/// Returns number `i` of an array of 32-bit numbers.
template <class T>
T item_of(const formats::gguf_value& list, size_t i) {
  T out{};
  std::memcpy(&out, list.numbers.data() + i * sizeof out, sizeof out);
  return out;
}

/// Returns a WordPiece token in BERT's form: GGUF files have the beginnings of words with the sign for spaces, and
/// their continuations without BERT's prefix.
std::string word_piece(std::string_view text) {
  return text.starts_with(space_sign) ? std::string(text.substr(space_sign.size())) : "##" + std::string(text);
}

json special_item(const std::string& text) { return {{"SpecialToken", {{"id", text}, {"type_id", 0}}}}; }
json sequence_item(const char* name, int type) { return {{"Sequence", {{"id", name}, {"type_id", type}}}}; }

}  // namespace

bool is_gguf_of_bytes(const gguf_metadata& keys) {
  const auto *words = keys.find(gguf_tokens_key), *merges = keys.find(ggml_key("merges"));
  if (words == nullptr || merges == nullptr || merges->texts != std::vector<std::string>{gguf_merge_of_nothing})
    return false;
  const auto bytes = byte_vocabulary().entries;
  return std::equal(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(std::min(bytes.size(), words->texts.size())),
                    words->texts.begin(),
                    [](const auto& entry, const std::string& word) { return entry.text == word; });
}

core::result<gguf_tokenizer> gguf_tokenizer::read(const std::filesystem::path& file) {
  TROUPE_ASSIGN(const auto opened, core::source_file::open(file));
  TROUPE_ASSIGN(auto header, formats::read_gguf_header(opened));
  return of(std::move(header.metadata), file.string());
}

core::result<gguf_tokenizer> gguf_tokenizer::of(gguf_metadata keys, std::string name) {
  gguf_tokenizer out(std::move(keys), std::move(name));
  const auto kind = out.keys_.text(ggml_key("model"));
  if (out.keys_.find(gguf_tokens_key) == nullptr)
    return core::refused(fmt::format("'{}' has no tokenizer: wanted the key {}", out.name_, gguf_tokens_key));
  if (kind != "gpt2" && kind != "llama" && kind != "t5" && kind != "bert")
    return core::refused(
        fmt::format("'{}': tokenizer.ggml.model: wanted gpt2, llama, t5 or bert, got '{}', which is not read: "
                    "give the model's own tokenizer",
                    out.name_, core::shown(kind)));
  out.is_unigram_ = kind == "t5";
  out.is_word_piece_ = kind == "bert";
  out.has_pieces_ = kind == "llama" || out.is_unigram_;
  if (auto ok = out.read_entries(); !ok) return fail(ok.error().in(fmt::format("'{}'", out.name_)));
  if (!out.is_unigram_) return out;
  if (auto ok = out.check_unigram_keys(); !ok) return fail(ok.error().in(fmt::format("'{}'", out.name_)));
  return out;
}

core::result<void> gguf_tokenizer::read_entries() {
  const auto& words = *keys_.find(gguf_tokens_key);
  const auto list = [&](std::string_view name,
                        std::initializer_list<gguf_value_type> items) -> core::result<const formats::gguf_value*> {
    const auto* const value = keys_.find(ggml_key(name));
    if (value == nullptr) return nullptr;
    if (value->type != gguf_value_type::array || std::ranges::find(items, value->items) == items.end() ||
        value->count() != words.count())
      return core::refused(fmt::format("{}{}: wanted a number for each of {} tokens", ggml, name, words.count()));
    return value;
  };
  if (words.type != gguf_value_type::array || words.items != gguf_value_type::text || words.texts.empty() ||
      words.texts.size() > max_vocabulary)
    return core::refused(fmt::format("{}: wanted a list of 1 to {} texts", gguf_tokens_key, max_vocabulary));
  TROUPE_ASSIGN(const auto kinds, list("token_type", {gguf_value_type::i32, gguf_value_type::u32}));
  TROUPE_ASSIGN(const auto scores, list("scores", {gguf_value_type::f32}));
  if (has_pieces_ && (kinds == nullptr || scores == nullptr))
    return core::refused(fmt::format("{}{}: wanted it, because pieces have scores and kinds, got none", ggml,
                                     kinds == nullptr ? "token_type" : "scores"));
  if (is_word_piece_ && kinds == nullptr)
    return core::refused(
        fmt::format("{}token_type: wanted it, because words and special tokens have kinds, got none", ggml));
  has_kinds_ = kinds != nullptr;
  std::unordered_set<std::string_view> seen;
  for (size_t t = 0; t < words.texts.size(); ++t) {
    vocabulary_entry entry{words.texts[t]};
    if (entry.text.empty()) entry.kind = token_kind::unused;
    if (kinds != nullptr) {
      const auto kind = item_of<int32_t>(*kinds, t);
      if (kind < static_cast<int32_t>(token_kind::normal) || kind > static_cast<int32_t>(token_kind::byte))
        return core::refused(fmt::format("{}token_type: wanted 1 to 6, got {} for token {}", ggml, kind, t));
      if (!entry.text.empty()) entry.kind = static_cast<token_kind>(kind);
    }
    if (scores != nullptr) entry.score = item_of<float>(*scores, t);
    // llama.cpp's converter writes the spaces of user-defined pieces as spaces
    if (has_pieces_ && entry.kind == token_kind::user_defined) entry.text = replaced(entry.text, " ", space_sign);
    if (is_word_piece_ && !entry.text.empty() && entry.kind != token_kind::control) entry.text = word_piece(entry.text);
    if (!core::is_utf8(entry.text))
      return core::refused(fmt::format("{}: wanted texts in UTF-8, got other bytes in token {}", gguf_tokens_key, t));
    if (!entry.text.empty() && !seen.insert(words.texts[t]).second)
      return core::refused(fmt::format("{}: the token '{}' occurs twice, also as number {}", gguf_tokens_key,
                                       core::shown(entry.text), t));
    entries_.push_back(std::move(entry));
  }
  const auto fills = [](const vocabulary_entry& e, size_t t) {
    return e.kind == token_kind::unused && (e.text.empty() || e.text == fmt::format("[PAD{}]", t));
  };
  while (entries_.size() > 1 && fills(entries_.back(), entries_.size() - 1)) entries_.pop_back();
  return {};
}

core::result<void> gguf_tokenizer::check_unigram_keys() const {
  constexpr std::array<std::string_view, 5> flags{"add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix",
                                                  "remove_extra_whitespaces"};
  constexpr std::array<std::string_view, 7> others{
      "model", "pre", "tokens", "token_type", "scores", "token_type_count", charsmap_key};
  const auto refused = [](std::string_view key, const std::string& why) {
    return core::refused(fmt::format("{}{}: {}", ggml, core::shown(key), why));
  };
  for (const auto& [key, value] : keys_.entries) {
    if (!key.starts_with(ggml)) continue;
    const auto name = std::string_view(key).substr(ggml.size());
    const bool is_flag = std::ranges::find(flags, name) != flags.end();
    if (is_flag && value.type != gguf_value_type::boolean) return refused(name, "wanted true or false");
    if (!is_flag && !name.ends_with("_token_id") && std::ranges::find(others, name) == others.end())
      return refused(name,
                     "wanted no such key for pieces of unigrams (t5), since its rule is not known: give the model's "
                     "own tokenizer");
  }
  if (const auto pre = keys_.text(ggml_key("pre")); !pre.empty() && pre != "default")
    return refused("pre",
                   fmt::format("wanted default, since pieces of unigrams (t5) have one way of cutting words, got "
                               "'{}'",
                               core::shown(pre)));
  if (keys_.find(ggml_key("add_space_prefix")) == nullptr)
    return refused("add_space_prefix", "wanted true or false, because programs have different defaults, got none");
  if (const auto* const table = keys_.find(ggml_key(charsmap_key)); table != nullptr) {
    if (table->type != gguf_value_type::array ||
        (table->items != gguf_value_type::u8 && table->items != gguf_value_type::i8))
      return refused(charsmap_key, "wanted a list of bytes");
    if (const auto fault = fault_in_rules(table->numbers); !fault.empty())
      return refused(charsmap_key, fmt::format("wanted a table of rules, got {}", fault));
  }
  std::vector<size_t> unknown;
  for (size_t t = 0; t < entries_.size(); ++t) {
    if (entries_[t].kind == token_kind::unknown) unknown.push_back(t);
    if (!std::isfinite(entries_[t].score))
      return refused("scores", fmt::format("wanted finite scores, got {} for token {}", entries_[t].score, t));
  }
  if (unknown.size() != 1)
    return refused("token_type",
                   fmt::format("wanted one token of the kind 2, for unknown characters, got {}", unknown.size()));
  const auto named = keys_.whole(ggml_key("unknown_token_id"));
  if (named && *named != unknown[0])
    return refused("unknown_token_id", fmt::format("wanted {}, the token of the kind 2, got {}", unknown[0], *named));
  return {};
}

/// Returns the rules by which characters are rewritten, a table of SentencePiece's; empty: none.
std::string gguf_tokenizer::normaliser() const {
  const auto* const table = is_unigram_ ? keys_.find(ggml_key(charsmap_key)) : nullptr;
  if (table == nullptr) return {};
  return {reinterpret_cast<const char*>(table->numbers.data()), table->numbers.size()};
}

bool gguf_tokenizer::flag(std::string_view key, bool otherwise) const {
  const auto* const value = keys_.find(ggml_key(key));
  return value != nullptr && value->type == gguf_value_type::boolean ? value->bits != 0 : otherwise;
}

/// Returns the number of the special token under `key`. Returns nullopt for a number whose token no file marks as
/// special: a file that must state numbers for the beginning and the end of texts may state one that no text uses.
std::optional<uint32_t> gguf_tokenizer::special(std::string_view key) const {
  const auto number = keys_.whole(ggml_key(key));
  if (!number || *number >= entries_.size()) return std::nullopt;
  const auto& entry = entries_[static_cast<size_t>(*number)];
  const bool is_marked = entry.kind == token_kind::control || entry.kind == token_kind::user_defined ||
                         (key == "unknown_token_id" && entry.kind == token_kind::unknown);
  if (has_kinds_ ? !is_marked : entry.text.empty()) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

bool gguf_tokenizer::adds_begin() const {
  // llama.cpp's default: texts of SentencePiece's kind, of Llama 3 and of Mistral begin with the token.
  const auto pre = keys_.text(ggml_key("pre"));
  const bool usual =
      (has_pieces_ && !is_unigram_) || pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3" || pre == "tekken";
  return special("bos_token_id").has_value() && flag("add_bos_token", usual);
}

bool gguf_tokenizer::adds_end() const {
  // llama.cpp's default: texts of unigrams end with the token.
  return special("eos_token_id").has_value() && flag("add_eos_token", is_unigram_);
}

/// Returns the token with which texts begin: of WordPiece, BERT's token of the class.
std::optional<uint32_t> gguf_tokenizer::first_token() const {
  if (!is_word_piece_) return adds_begin() ? special("bos_token_id") : std::nullopt;
  if (!flag("add_bos_token", true)) return std::nullopt;
  const auto begin = special("bos_token_id");
  return begin ? begin : special("cls_token_id");
}

/// Returns the token with which texts end: of WordPiece, BERT's separator.
std::optional<uint32_t> gguf_tokenizer::last_token() const {
  if (!is_word_piece_) return adds_end() ? special("eos_token_id") : std::nullopt;
  return flag("add_sep_token", true) ? special("seperator_token_id") : std::nullopt;
}

json gguf_tokenizer::special_list() const {
  json out = json::array();
  for (size_t t = 0; t < entries_.size(); ++t) {
    const auto& e = entries_[t];
    const bool is_special = e.kind == token_kind::control || e.kind == token_kind::unknown;
    if (!is_special && e.kind != token_kind::user_defined) continue;
    out.push_back({{"id", t},
                   {"content", e.text},
                   {"single_word", false},
                   {"lstrip", false},
                   {"rstrip", false},
                   {"normalized", false},
                   {"special", is_special}});
  }
  return out;
}

json gguf_tokenizer::post_processor() const {
  const auto begin = first_token(), end = last_token();
  if (!begin && !end) return nullptr;
  json single = json::array(), pair = json::array(), tokens = json::object();
  const auto add = [&](json& to, const std::optional<uint32_t>& token) {
    if (!token) return;
    const auto& text = entries_[*token].text;
    to.push_back(special_item(text));
    tokens[text] = {{"id", text}, {"ids", json::array({*token})}, {"tokens", json::array({text})}};
  };
  for (auto* to : {&single, &pair}) {
    add(*to, begin);
    to->push_back(sequence_item("A", 0));
    add(*to, end);
  }
  add(pair, begin);
  pair.push_back(sequence_item("B", 1));
  add(pair, end);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

core::result<json> gguf_tokenizer::pipeline() const {
  if (is_word_piece_) return word_pipeline();
  if (!has_pieces_) return byte_level_pipeline();
  return is_unigram_ ? unigram_pipeline() : piece_pipeline();
}

core::result<void> gguf_tokenizer::check_pipeline_is_exact() const {
  const auto refused = [&](const std::string& why) {
    return core::refused(fmt::format("'{}': {}{}", name_, ggml, why));
  };
  for (size_t t = 0; is_unigram_ && t < entries_.size(); ++t)
    if (entries_[t].kind == token_kind::unused || entries_[t].kind == token_kind::user_defined)
      return refused(
          fmt::format("token_type: wanted no unused and no user-defined token for a tokenizer.json of unigrams, "
                      "which has no exact words for them, got token {}",
                      t));
  if (has_pieces_ && flag("remove_extra_whitespaces", false) && !flag("add_space_prefix", true))
    return refused(
        "remove_extra_whitespaces: wanted false without add_space_prefix for a tokenizer.json, which has no exact "
        "words for both");
  return {};
}

core::result<json> gguf_tokenizer::byte_level_pipeline() const {
  const auto refused = [&](const std::string& why) { return core::refused(fmt::format("'{}': {}", name_, why)); };
  const auto* const merges = keys_.find(ggml_key("merges"));
  if (merges == nullptr || merges->type != gguf_value_type::array || merges->items != gguf_value_type::text)
    return refused("tokenizer.ggml.merges: wanted a list of texts");
  if (flag("add_space_prefix", false))
    return refused("tokenizer.ggml.add_space_prefix: wanted false, since a space before the text is not supported");
  json words = json::object();
  for (size_t t = 0; t < entries_.size(); ++t)
    if (entries_[t].kind != token_kind::unused) words[entries_[t].text] = t;
  json out{
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", special_list()},
      {"post_processor", post_processor()},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}}};
  const bool merges_nothing = merges->texts == std::vector<std::string>{gguf_merge_of_nothing};
  out["model"] = byte_pair_model(std::move(words), json::array());
  if (!merges_nothing) out["model"]["merges"] = merges->texts;
  const auto pre = keys_.text(ggml_key("pre"));
  if (auto ok = put_named_rules(pre.empty() ? "default" : pre, out); !ok)
    return fail(ok.error().in(fmt::format("'{}'", name_)));
  return out;
}

core::result<json> gguf_tokenizer::word_pipeline() const {
  const auto refused = [&](const std::string& why) {
    return core::refused(fmt::format("'{}': {}{}", name_, ggml, why));
  };
  json words = json::object();
  for (size_t t = 0; t < entries_.size(); ++t) {
    const auto& e = entries_[t];
    if (e.kind == token_kind::unused) continue;
    const bool is_cased = std::ranges::any_of(e.text, [](char c) { return c >= 'A' && c <= 'Z'; });
    if (e.kind == token_kind::normal && is_cased)
      return refused(
          fmt::format("tokens: wanted words in lower case, because a GGUF file of WordPiece does not say that a text "
                      "keeps its case, got '{}': give the model's own tokenizer",
                      core::shown(e.text)));
    if (!words.emplace(e.text, t).second)
      return refused(fmt::format("tokens: the word '{}' occurs twice, also as number {}", core::shown(e.text), t));
  }
  const auto unknown = special("unknown_token_id");
  if (!unknown) return refused("unknown_token_id: wanted the token of unknown words, got none");
  constexpr uint64_t most_characters = 100;  // BERT's, of a word that is not unknown as a whole
  return json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", special_list()},
              {"normalizer",
               {{"type", "BertNormalizer"},
                {"clean_text", true},
                {"handle_chinese_chars", true},
                {"strip_accents", true},
                {"lowercase", true}}},
              {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
              {"post_processor", post_processor()},
              {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
              {"model",
               {{"type", "WordPiece"},
                {"unk_token", entries_[*unknown].text},
                {"continuing_subword_prefix", "##"},
                {"max_input_chars_per_word", most_characters},
                {"vocab", std::move(words)}}}};
}

json gguf_tokenizer::piece_pipeline() const {
  json words = json::object();
  std::vector<size_t> order;
  bool has_byte_pieces = false;
  json unknown;
  for (size_t t = 0; t < entries_.size(); ++t) {
    const auto& e = entries_[t];
    if (e.text.empty()) continue;
    words[e.text] = t;
    // A user-defined piece is found as a whole in the text. One with the sign for spaces never occurs in a text, which
    // has real spaces, so it is merged like a normal piece.
    const bool is_merged = e.kind == token_kind::normal ||
                           (e.kind == token_kind::user_defined && e.text.find(space_sign) != std::string::npos);
    if (is_merged) order.push_back(t);
    if (e.kind == token_kind::unknown) unknown = e.text;
    has_byte_pieces = has_byte_pieces || e.kind == token_kind::byte;
  }
  // SentencePiece merges the pair whose piece has the highest score first.
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return entries_[a].score > entries_[b].score; });
  std::vector<std::string> texts;
  for (const size_t t : order) texts.push_back(entries_[t].text);
  json merges = json::array();
  for (const auto& [left, right] : merges_into(texts)) merges.push_back(json::array({texts[left], texts[right]}));
  json rules = json::array();
  add_space_rules(rules);
  json model = byte_pair_model(std::move(words), std::move(merges));
  model["unk_token"] = unknown;
  model["fuse_unk"] = true;
  model["byte_fallback"] = has_byte_pieces;
  return with_model(std::move(rules), std::move(model));
}

/// Adds normalizers that treat spaces as SentencePiece does, which removes those at both ends of a text and repeated
/// ones if it is told to. The space before the text is added before repeated ones are removed, and stands for those
/// there.
void gguf_tokenizer::add_space_rules(json& rules) const {
  const auto replace = [&](const char* kind, std::string_view pattern, std::string_view by) {
    rules.push_back({{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", by}});
  };
  const bool removes = flag("remove_extra_whitespaces", false);
  if (removes) replace("Regex", spaces_at_end, "");
  if (flag("add_space_prefix", true)) rules.push_back({{"type", "Prepend"}, {"prepend", removes ? " " : space_sign}});
  if (removes) replace("Regex", " {2,}", " ");
  replace("String", " ", space_sign);
}

json gguf_tokenizer::unigram_pipeline() const {
  json words = json::array();
  json unknown;
  bool has_byte_pieces = false;
  for (size_t t = 0; t < entries_.size(); ++t) {
    const auto& e = entries_[t];
    const bool is_scored = e.kind == token_kind::normal;
    words.push_back(json::array(
        {e.text.empty() ? fmt::format("[PAD{}]", t) : e.text, is_scored ? static_cast<double>(e.score) : 0.0}));
    if (e.kind == token_kind::unknown) unknown = t;
    has_byte_pieces = has_byte_pieces || e.kind == token_kind::byte;
  }
  json rules = json::array();
  if (const auto table = normaliser(); !table.empty())
    rules.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(table)}});
  add_space_rules(rules);
  return with_model(
      std::move(rules),
      {{"type", "Unigram"}, {"unk_id", unknown}, {"vocab", std::move(words)}, {"byte_fallback", has_byte_pieces}});
}

/// Returns a tokenizer.json of pieces whose texts are prepared by the normalizers `rules` and divided by `model`.
json gguf_tokenizer::with_model(json rules, json model) const {
  json back = json::array({{{"type", "Replace"}, {"pattern", {{"String", space_sign}}}, {"content", " "}},
                           {{"type", "ByteFallback"}},
                           {{"type", "Fuse"}}});
  if (flag("add_space_prefix", true)) back.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", special_list()},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", std::move(rules)}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", post_processor()},
          {"decoder", {{"type", "Sequence"}, {"decoders", std::move(back)}}},
          {"model", std::move(model)}};
}

json gguf_tokenizer::configuration() const {
  json out{{"tokenizer_class", "PreTrainedTokenizerFast"},
           {"clean_up_tokenization_spaces", false},
           {"add_bos_token", adds_begin()},
           {"add_eos_token", adds_end()}};
  for (const auto& [theirs, ours] : {std::pair{"bos_token_id", "bos_token"},
                                     {"eos_token_id", "eos_token"},
                                     {"unknown_token_id", "unk_token"},
                                     {"cls_token_id", "cls_token"},
                                     {"seperator_token_id", "sep_token"},  // llama.cpp's spelling
                                     {"padding_token_id", "pad_token"},
                                     {"mask_token_id", "mask_token"}})
    if (const auto token = special(theirs)) out[ours] = entries_[*token].text;
  const auto positions = keys_.whole(keys_.text("general.architecture") + ".context_length");
  if (positions) out["model_max_length"] = *positions;
  const auto chat = keys_.text(template_key);
  const auto* const others = keys_.find("tokenizer.chat_templates");
  if (others != nullptr && !others->texts.empty()) {
    json all = json::array();
    if (!chat.empty()) all.push_back({{"name", "default"}, {"template", chat}});
    for (const auto& name : others->texts)
      if (const auto text = keys_.text(fmt::format("{}.{}", template_key, name)); !text.empty())
        all.push_back({{"name", name}, {"template", text}});
    out["chat_template"] = std::move(all);
  } else if (!chat.empty()) {
    out["chat_template"] = chat;
  }
  return out;
}

json gguf_tokenizer::generation() const {
  json out, ends = json::array();
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"})
    if (const auto token = special(key); token && std::find(ends.begin(), ends.end(), json(*token)) == ends.end())
      ends.push_back(*token);
  if (const auto token = special("bos_token_id")) out["bos_token_id"] = *token;
  if (ends.size() == 1) out["eos_token_id"] = ends.front();
  if (ends.size() > 1) out["eos_token_id"] = ends;
  if (const auto token = special("padding_token_id")) out["pad_token_id"] = *token;
  return out;
}

std::string gguf_tokenizer::piece_model() const {
  piece_model_options options{.adds_space = flag("add_space_prefix", true),
                              .removes_extra_spaces = flag("remove_extra_whitespaces", false),
                              .is_unigram = is_unigram_,
                              .rules = normaliser()};
  for (size_t t = 0; t < entries_.size(); ++t)
    if (entries_[t].kind == token_kind::unknown) options.unknown = static_cast<uint32_t>(t);
  options.begin = special("bos_token_id");
  options.end = special("eos_token_id");
  options.padding = special("padding_token_id");
  auto pieces = entries_;
  for (size_t t = 0; t < pieces.size(); ++t)
    if (pieces[t].text.empty()) pieces[t].text = fmt::format("[PAD{}]", t);
  return sentencepiece_model_of(pieces, options);
}

}  // namespace troupe::data
