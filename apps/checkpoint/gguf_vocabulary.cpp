// Finds the vocabulary for a GGUF file: in the checkpoint's own metadata, in its folder, or in the tokenizer of its
// run.
#include "apps/checkpoint/gguf_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "apps/checkpoint/model_description.hpp"
#include "data/tokenizers/files/gguf_tokenizer.hpp"
#include "data/tokenizers/opening/vocabulary_files.hpp"
#include "data/tokenizers/text/byte_alphabet.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "data/tokenizers/vocabulary.hpp"
#include "formats/gguf/source.hpp"

namespace troupe::apps {
namespace {

using data::vocabulary_kind;
using formats::gguf_metadata;
using formats::gguf_value;
namespace fs = std::filesystem;

constexpr std::string_view prefix = "tokenizer.";

const char* model_of(vocabulary_kind k) {
  switch (k) {
    case vocabulary_kind::byte_level:
      return "gpt2";
    case vocabulary_kind::sentencepiece_bpe:
      return "llama";
    case vocabulary_kind::sentencepiece_unigram:
      return "t5";
  }
  return "";
}

/// Returns the token that stands for the begin or the end of a text where the vocabulary has no such token: one that
/// no text contains (that of byte 0, SentencePiece's unknown token), or an unused one. Nothing if there is none.
std::optional<uint32_t> token_of_no_text(const data::vocabulary& v, uint64_t tokens) {
  if (v.special.unknown) return v.special.unknown;
  const auto byte_0 = std::ranges::find(v.entries, data::byte_alphabet().word_of(0), &data::vocabulary_entry::text);
  if (byte_0 != v.entries.end()) return static_cast<uint32_t>(byte_0 - v.entries.begin());
  return v.entries.size() < tokens ? std::optional(static_cast<uint32_t>(v.entries.size())) : std::nullopt;
}

/// Refuses a SentencePiece model whose spaces llama.cpp treats otherwise, so that most texts would get other tokens.
core::result<void> check_spaces(const data::vocabulary& v, const std::string& place) {
  if (!v.ends_pieces_with_space && !v.keeps_spaces) return {};
  return core::refused(
      fmt::format("the tokenizer '{}' {}, which llama.cpp does not support: wanted a SentencePiece "
                  "model whose pieces begin with the space, as U+2581",
                  place,
                  v.ends_pieces_with_space ? "ends pieces with a space (treat_whitespace_as_suffix)"
                                           : "has plain spaces (escape_whitespaces: false)"));
}

/// Returns, for a warning, which texts llama.cpp encodes otherwise than the SentencePiece model; empty: none. For BPE
/// llama.cpp normalises nothing, and a character without a piece must have pieces of its bytes.
std::string other_texts_of(const data::vocabulary& v) {
  if (v.kind != vocabulary_kind::sentencepiece_bpe) return {};
  std::vector<std::string> out;
  if (!v.normaliser.empty()) out.emplace_back("with characters that the model's normaliser replaces");
  if (v.removes_extra_spaces) out.emplace_back("with repeated spaces, which the model removes");
  if (std::ranges::find(v.entries, data::token_kind::byte, &data::vocabulary_entry::kind) == v.entries.end())
    out.emplace_back("with characters that no piece has (without byte_fallback)");
  return fmt::format("{}", fmt::join(out, ", "));
}

/// Returns the name of the rules by which the byte-level tokenizer `place` prepares texts. Refused: rules that no name
/// states exactly, since llama.cpp would make other tokens.
core::result<std::string> pre_of(const data::vocabulary& v, const std::string& place) {
  if (place == bytes_name) return std::string("gpt-2");
  if (!v.objection.empty()) return core::refused(fmt::format("the tokenizer '{}': {}", place, v.objection));
  return data::rules_name_at(place);
}

/// Returns the keys of the vocabulary for a model of `tokens` tokens; `pre` is the name of the rules by which a
/// byte-level tokenizer prepares texts.
gguf_metadata keys_of(const data::vocabulary& v, uint64_t tokens, const std::string& pre) {
  gguf_metadata out;
  const auto set = [&](const char* key, auto value) {
    out.set(std::string("tokenizer.ggml.") + key, gguf_value::of(std::move(value)));
  };
  std::vector<std::string> texts;
  std::vector<int32_t> kinds;
  std::vector<float> scores;
  for (uint64_t t = 0; t < tokens; ++t) {
    const bool is_there = t < v.entries.size() && !v.entries[t].text.empty();
    texts.push_back(is_there ? v.entries[t].text : fmt::format("[PAD{}]", t));
    kinds.push_back(static_cast<int32_t>(is_there ? v.entries[t].kind : data::token_kind::unused));
    scores.push_back(is_there ? v.entries[t].score : 0);
  }
  set("model", std::string(model_of(v.kind)));
  const bool is_byte_level = v.kind == vocabulary_kind::byte_level;
  set("pre", pre);
  set("tokens", std::move(texts));
  if (!is_byte_level) set("scores", std::span<const float>(scores));
  set("token_type", std::span<const int32_t>(kinds));
  if (is_byte_level) set("merges", v.merges.empty() ? std::vector<std::string>{data::gguf_merge_of_nothing} : v.merges);
  // Without the keys bos_token_id and eos_token_id, llama.cpp takes ordinary tokens as the first and last token of
  // texts (11 and 11 of a byte-level vocabulary, 1 and 2 of SentencePiece's), and would end a text at such a token.
  const auto& special = v.special;
  const auto none = token_of_no_text(v, tokens);
  for (const auto& [key, token] : {std::pair{"bos_token_id", special.begin ? special.begin : none},
                                   {"eos_token_id", special.end ? special.end : none},
                                   {"eot_token_id", special.end_of_turn},
                                   {"eom_token_id", special.end_of_message},
                                   {"unknown_token_id", special.unknown},
                                   {"seperator_token_id", special.separator},  // llama.cpp's spelling
                                   {"padding_token_id", special.padding},
                                   {"mask_token_id", special.mask}})
    if (token) set(key, *token);
  if (!special.chat_template.empty()) out.set("tokenizer.chat_template", gguf_value::of(special.chat_template));
  std::vector<std::string> names;
  for (const auto& [name, text] : special.other_templates) {
    names.push_back(name);
    out.set("tokenizer.chat_template." + name, gguf_value::of(text));
  }
  if (!names.empty()) out.set("tokenizer.chat_templates", gguf_value::of(std::move(names)));
  const bool is_unigram = v.kind == vocabulary_kind::sentencepiece_unigram;
  // Overrides llama.cpp's defaults, by which BPE texts begin with the token `begin` and unigram texts end with the
  // token `end`, because no language model that is written here requires that.
  if (is_byte_level || is_unigram || special.adds_begin || !special.begin)
    set("add_bos_token", special.begin && special.adds_begin.value_or(false));
  if (is_unigram || special.adds_end) set("add_eos_token", special.end && special.adds_end.value_or(false));
  if (special.adds_separator) set("add_sep_token", *special.adds_separator);
  if (is_byte_level) return out;
  set("add_space_prefix", v.adds_space);
  set("remove_extra_whitespaces", v.removes_extra_spaces);
  if (is_unigram && !v.normaliser.empty()) {
    gguf_value table{.type = formats::gguf_value_type::array, .items = formats::gguf_value_type::u8};
    const auto bytes = std::as_bytes(std::span(v.normaliser));
    table.numbers.assign(bytes.begin(), bytes.end());
    out.set("tokenizer.ggml.precompiled_charsmap", std::move(table));
  }
  return out;
}

/// Returns the tokenizer of the run that wrote the checkpoint, a path or `bytes`; nothing if the checkpoint does not
/// contain that run's configuration.
std::optional<std::string> trained_on(const formats::tensor_source& s) {
  const auto job = own_configuration(s);
  if (!job) return std::nullopt;
  const auto& path = job->data.tokenizer_path;
  return path.empty() ? std::string(bytes_name) : path.string();
}

core::result<gguf_metadata> copied(const formats::tensor_source& s) {
  TROUPE_ASSIGN(const auto all, formats::gguf_metadata_of(s));
  gguf_metadata out;
  for (const auto& [key, value] : all.entries)
    if (key.starts_with(prefix)) out.set(key, value);
  return out;
}

}  // namespace

core::result<gguf_metadata> gguf_vocabulary(const source_arguments& a, const formats::tensor_source& s,
                                            const std::string& wanted, uint64_t tokens) {
  if (wanted == data::bytes_as_ids)
    return core::refused(fmt::format("--tokenizer: wanted a path or '{0}', got {1}: '{0}' writes a vocabulary of bytes",
                                     bytes_name, data::bytes_as_ids));
  std::string place = wanted;
  if (place.empty()) {
    auto own = copied(s);
    if (!own) return own;
    if (const auto* list = own->find(data::gguf_tokens_key); list != nullptr && list->count() == tokens) return own;
    if (data::has_vocabulary(s.folder)) place = s.folder.string();
  }
  if (place.empty()) place = trained_on(s).value_or("");
  if (place.empty())
    return fail(
        error_kind::bad_input,
        fmt::format("'{}' has no tokenizer that can be written to a GGUF file: give one by --tokenizer, a path or "
                    "'{}'",
                    formats::shown_place(s), bytes_name));
  TROUPE_ASSIGN(auto vocabulary, place == bytes_name ? core::result<data::vocabulary>(data::byte_vocabulary())
                                                     : data::read_vocabulary(place));
  std::error_code ec;
  const auto folder = fs::is_directory(place, ec) ? fs::path(place) : fs::path(place).parent_path();
  TROUPE_TRY(data::check_ends_of_text(folder, vocabulary.special, "the vocabulary"));
  // A model of bytes may have fewer than 256 tokens, if its training texts did not contain the other bytes.
  if (place == bytes_name && vocabulary.entries.size() > tokens) vocabulary.entries.resize(tokens);
  if (vocabulary.entries.size() > tokens)
    return fail(error_kind::mismatch, fmt::format("the tokenizer '{}' has {} tokens, the model {}", place,
                                                  vocabulary.entries.size(), tokens));
  TROUPE_TRY(check_spaces(vocabulary, place));
  if (const auto texts = other_texts_of(vocabulary); !texts.empty())
    note(a, fmt::format("warning: llama.cpp cannot encode all texts as '{}', a BPE model of SentencePiece, does; other "
                        "tokens or an error come from texts {}",
                        place, texts));
  std::string pre = "default";
  if (vocabulary.kind == vocabulary_kind::byte_level) {
    TROUPE_ASSIGN(pre, pre_of(vocabulary, place));
  }
  return keys_of(vocabulary, tokens, pre);
}

}  // namespace troupe::apps
