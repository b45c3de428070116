// Finds the files of a vocabulary, and reads those of byte-level ones; leaves SentencePiece models to
// vocabulary_pieces.cpp.
#include "data/tokenizers/opening/vocabulary_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/text.hpp"
#include "data/tokenizers/files/made_files.hpp"
#include "data/tokenizers/files/named_rules.hpp"
#include "data/tokenizers/files/sentencepiece_checks.hpp"
#include "data/tokenizers/files/tokenizer_folder.hpp"
#include "data/tokenizers/opening/merge_lines.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/opening/pipeline_model.hpp"
#include "data/tokenizers/opening/sentencepiece.hpp"
#include "data/tokenizers/opening/special_token_files.hpp"
#include "data/tokenizers/opening/tokenizer_class.hpp"
#include "data/tokenizers/text/byte_alphabet.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr const char* pieces_file = "tokenizer.model";
constexpr const char* pipeline_file = "tokenizer.json";
constexpr const char* words_file = "vocab.json";
constexpr const char* merges_file = "merges.txt";
/// Score that gguf-py writes for words that were added to a SentencePiece vocabulary.
constexpr float added_score = -1000;

tl::unexpected<core::error> refused(const fs::path& path, const std::string& why) {
  return fail(error_kind::bad_input, fmt::format("'{}': {}", path.string(), why));
}

/// Sets the texts of the tokens whose numbers a file of words lists; a number that is missing stays unused.
core::result<void> add_words(const fs::path& path, const json& words, vocabulary& out) {
  if (!words.is_object() || words.empty()) return refused(path, "wanted words and their numbers");
  for (const auto& [word, number] : words.items()) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() >= max_vocabulary)
      return refused(path, fmt::format("the word '{}': wanted a number below {}", core::shown(word), max_vocabulary));
    const auto n = number.get<size_t>();
    if (n >= out.entries.size()) out.entries.resize(n + 1, {"", token_kind::unused});
    if (!out.entries[n].text.empty())
      return refused(path,
                     fmt::format("the word '{}' has number {}, which another word has too", core::shown(word), n));
    out.entries[n] = {word, token_kind::normal};
  }
  return {};
}

std::unordered_map<std::string_view, uint32_t> numbers_of(const vocabulary& v) {
  std::unordered_map<std::string_view, uint32_t> out;
  for (uint32_t t = 0; t < v.entries.size(); ++t)
    if (!v.entries[t].text.empty()) out.emplace(v.entries[t].text, t);
  return out;
}

token_finder finder_in(const std::unordered_map<std::string_view, uint32_t>& numbers) {
  return [&numbers](std::string_view text) -> std::optional<uint32_t> {
    const auto at = numbers.find(text);
    return at == numbers.end() ? std::nullopt : std::optional(at->second);
  };
}

token_texts text_finder_in(const vocabulary& v) {
  return [&v](uint32_t t) {
    const bool is_used = t < v.entries.size() && v.entries[t].kind != token_kind::unused;
    return is_used ? std::string_view(v.entries[t].text) : std::string_view();
  };
}

/// True for words that llama.cpp's converter treats as control tokens although no file marks them.
bool looks_like_control(std::string_view text) {
  for (const char* one : {"<pad>", "<mask>", "<2mass>", "[@BOS@]"})
    if (text == one) return true;
  return (text.starts_with("<|") && text.ends_with("|>")) ||
         (text.starts_with("<\uFF5C") && text.ends_with("\uFF5C>")) ||
         (text.starts_with("<unused") && text.ends_with(">"));
}

/// Adds the folder's added words. Refused: words that check_added_words() refuses.
core::result<void> add_added_words(const fs::path& folder, vocabulary& out) {
  TROUPE_ASSIGN(const auto words, read_added_words(folder));
  if (words.empty()) return {};
  const auto numbers = numbers_of(out);
  TROUPE_TRY(check_added_words(folder, words, finder_in(numbers), text_finder_in(out), "the vocabulary"));
  const bool has_scores = out.kind != vocabulary_kind::byte_level;
  for (const auto& w : words) {
    if (w.id >= out.entries.size()) out.entries.resize(w.id + 1, {"", token_kind::unused});
    auto& e = out.entries[w.id];
    if (has_scores && e.text == w.text) continue;  // the SentencePiece model has already set the word's kind
    e = {w.text, w.is_special || looks_like_control(w.text) ? token_kind::control : token_kind::user_defined,
         has_scores ? added_score : 0};
  }
  return {};
}

core::result<void> add_special(const fs::path& folder, vocabulary& out) {
  const auto numbers = numbers_of(out);
  TROUPE_ASSIGN(auto read, read_special_tokens(folder, finder_in(numbers), out.entries.size()));
  auto& own = out.special;
  for (const auto place :
       {&special_tokens::begin, &special_tokens::end, &special_tokens::unknown, &special_tokens::padding})
    if (!(read.*place)) read.*place = own.*place;
  own = std::move(read);
  if (out.kind == vocabulary_kind::byte_level)
    for (const uint32_t t : own.named) out.entries[t].kind = token_kind::control;
  return {};
}

/// Marks GPT-2's end of text, which its file of words does not mark.
void mark_end_of_text(vocabulary& out) {
  const auto at = std::ranges::find(out.entries, "<|endoftext|>", &vocabulary_entry::text);
  if (at == out.entries.end()) return;
  at->kind = token_kind::control;
  for (auto* place : {&out.special.begin, &out.special.end, &out.special.unknown})
    if (!*place) *place = static_cast<uint32_t>(at - out.entries.begin());
}

core::result<vocabulary> read_words(const fs::path& folder) {
  vocabulary out;
  TROUPE_ASSIGN(out.rules, text_rules_in(folder));
  // Opens the tokenizer only for its checks of the rules and of the completeness of the merges.
  TROUPE_TRY(open_tokenizer(folder / words_file));
  TROUPE_ASSIGN(const auto words, read_json_object(folder / words_file));
  TROUPE_TRY(add_words(folder / words_file, words, out));
  TROUPE_ASSIGN(const auto merges, read_tokenizer_file(folder / merges_file));
  merge_lines lines(merges);
  while (const auto line = lines.next()) out.merges.emplace_back(*line);
  TROUPE_TRY(add_added_words(folder, out));
  TROUPE_TRY(add_special(folder, out));
  mark_end_of_text(out);
  return out;
}

core::result<void> add_merges(const fs::path& path, const json& merges, vocabulary& out) {
  if (!merges.is_array()) return refused(path, "model.merges: wanted a list");
  for (const auto& m : merges) {
    if (m.is_string()) {
      out.merges.push_back(m);
    } else if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
      out.merges.push_back(m[0].get<std::string>() + " " + m[1].get<std::string>());
    } else {
      return refused(path, "model.merges: wanted pairs of words");
    }
  }
  return {};
}

core::result<vocabulary> read_pipeline(const fs::path& path) {
  TROUPE_ASSIGN(const auto keys, read_json_object(path));
  const auto model = keys.value("model", json());
  if (!model.is_object() || (model.contains("type") && json_text_of(model, "type") != "BPE") ||
      !model.contains("vocab"))
    return refused(path, "model: wanted one of type BPE with a vocabulary");
  if (json_flag_of(model, "byte_fallback", false))
    return refused(
        path,
        fmt::format("model.byte_fallback: such a vocabulary needs the scores of its {}: wanted that file next to it",
                    pieces_file));
  if (const auto marks = objection_to_marks(model)) return refused(path, *marks);
  vocabulary out;
  TROUPE_ASSIGN(out.rules, text_rules_of(path, keys));
  out.objection = objection_to_merging(model).value_or("");
  TROUPE_TRY(check_no_prefix_space(path.parent_path()));
  TROUPE_TRY(add_words(path, model["vocab"], out));
  const byte_alphabet alphabet;
  const auto lost = alphabet.missing([&](const std::string& word) { return model["vocab"].contains(word); });
  out.fault = alphabet.fault_without(lost, !json_value_of(model, "unk_token").is_null()).value_or("");
  TROUPE_TRY(add_merges(path, model.value("merges", json()), out));
  TROUPE_TRY(add_added_words(path.parent_path(), out));
  TROUPE_TRY(add_special(path.parent_path(), out));
  if (!out.special.end) mark_end_of_text(out);
  return out;
}

bool has_words(const fs::path& folder) {
  std::error_code e;
  return fs::exists(folder / words_file, e) && fs::exists(folder / merges_file, e);
}

core::result<vocabulary> read_pieces(const fs::path& path) {
  TROUPE_ASSIGN(const auto text, read_tokenizer_file(path));
  auto out = pieces_of(std::as_bytes(std::span(text)));
  if (!out) return fail(out.error().in(fmt::format("'{}'", path.string())));
  if (auto ok = check_loads(text); !ok) return fail(ok.error().in(fmt::format("'{}'", path.string())));
  const auto numbers = numbers_of(*out);
  const auto folder = path.parent_path();
  TROUPE_TRY(check_piece_class(folder, out->adds_space));
  TROUPE_TRY(check_piece_numbers(folder, finder_in(numbers)));
  TROUPE_TRY(add_added_words(folder, *out));
  TROUPE_TRY(add_special(folder, *out));
  TROUPE_TRY(check_end_of_text(folder, out->special, "the model"));
  return out;
}

}  // namespace

core::result<void> check_words_beside(const fs::path& folder) {
  if (!has_words(folder)) return {};
  TROUPE_ASSIGN(const auto pipeline, read_json_object(folder / pipeline_file));
  TROUPE_ASSIGN(const auto words, read_json_object(folder / words_file));
  TROUPE_ASSIGN(const auto merges, read_tokenizer_file(folder / merges_file));
  std::unordered_map<std::string, uint32_t> numbers;
  for (const auto& [word, number] : words.items())
    if (number.is_number_unsigned() && number.get<uint64_t>() < max_vocabulary)
      numbers.emplace(word, number.get<uint32_t>());
  if (const auto difference = difference_to_files(json_value_of(pipeline, "model"), numbers, merges))
    return refused(folder / pipeline_file,
                   *difference + ": wanted one tokenizer in a folder: remove the files of the other");
  return {};
}

bool has_vocabulary(const fs::path& folder) {
  if (const auto file = tokenizer_file_at(folder); !file.empty()) return has_words_in(file);
  std::error_code e;
  return fs::exists(folder / pieces_file, e) || fs::exists(folder / pipeline_file, e) || has_words(folder);
}

core::result<vocabulary> read_vocabulary(const fs::path& path) {
  if (const auto file = tokenizer_file_at(path); !file.empty()) {
    const kept_files kept;
    TROUPE_ASSIGN(const auto made, made_vocabulary_in(file));
    if (made.empty()) return byte_vocabulary();
    return made.extension() == ".model" ? read_pieces(made) : read_pipeline(made);
  }
  std::error_code e;
  if (!fs::is_directory(path, e)) {
    if (path.extension() == ".model") return read_pieces(path);
    if (path.filename() == words_file) return read_words(path.parent_path());
    if (path.extension() == ".json") return read_pipeline(path);
  } else {
    if (has_piece_model(path) && !has_words(path)) return read_pieces(path / pieces_file);
    if (fs::exists(path / pipeline_file, e)) {
      TROUPE_TRY(check_words_beside(path));
      return read_pipeline(path / pipeline_file);
    }
    if (fs::exists(path / words_file, e)) return read_words(path);
  }
  return refused(path, fmt::format("wanted a {}, {}, {} with {}, or a folder with one of them", pieces_file,
                                   pipeline_file, words_file, merges_file));
}

core::result<std::string> rules_name_at(const fs::path& place) {
  std::error_code e;
  const auto file = tokenizer_file_at(place);
  const bool is_folder = fs::is_directory(place, e) || !file.empty();
  const auto folder = !file.empty() ? file : is_folder ? place : place.parent_path();
  const bool is_pipeline = !is_folder && place.extension() == ".json" && place.filename() != "vocab.json";
  const auto path = is_pipeline ? place : folder / "tokenizer.json";
  TROUPE_ASSIGN(const auto pipeline, read_json_if_there(path));
  if (!pipeline.is_null()) return name_of_rules(path, pipeline);
  TROUPE_ASSIGN(const auto rules, text_rules_by_class(folder));
  return std::string(name_of(rules.words));
}

}  // namespace troupe::data
