#include "data/tokenizers/opening/byte_pair_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/json_text.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/tokenizers/files/tokenizer_folder.hpp"
#include "data/tokenizers/opening/merge_lines.hpp"
#include "data/tokenizers/opening/pipeline_model.hpp"
#include "data/tokenizers/opening/special_token_files.hpp"
#include "data/tokenizers/opening/tokenizer_class.hpp"
#include "data/tokenizers/special_tokens.hpp"
#include "data/tokenizers/text/byte_alphabet.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "data/tokenizers/words/byte_pair.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

/// Largest number of words of a vocabulary that no merge produces and that have no angle or square brackets, which mark
/// special words. A few may be fillers; more words mean that merges.txt is incomplete.
constexpr size_t most_unmade_words = 16;

uint64_t line_of(std::string_view text, size_t at) {
  return 1 + static_cast<uint64_t>(
                 std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(std::min(at, text.size())), '\n'));
}

using word_numbers = std::unordered_map<std::string, uint32_t>;

core::result<word_numbers> read_vocab(const fs::path& path, std::string_view text) {
  const auto wrong = [&](uint64_t line, const std::string& why) {
    return fail(error_kind::bad_input, fmt::format("{}:{}: {}", path.string(), line, why));
  };
  const auto parsed = core::parse_json(text, max_tokenizer_json_depth);
  if (!parsed)
    return wrong(line_of(text, parsed.error().byte),
                 "wanted one JSON object of words and their numbers, got " + parsed.error().why);
  const auto& json = *parsed;
  if (!json.is_object() || json.empty())
    return wrong(1, fmt::format("wanted one JSON object of words and their numbers, got {}",
                                json.is_object() ? "an empty one" : json.type_name()));
  word_numbers numbers;
  std::vector<bool> taken;
  for (const auto& [word, number] : json.items()) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() >= max_vocabulary)
      return wrong(line_of(text, text.find(word)),
                   fmt::format("the word '{}': wanted a number from 0 to {}, got {}", word, max_vocabulary - 1,
                               number.dump(-1, ' ', true).substr(0, 40)));
    const auto n = number.get<uint32_t>();
    if (n >= taken.size()) taken.resize(n + 1);
    if (taken[n])
      return wrong(line_of(text, text.find(word)),
                   fmt::format("the word '{}' has number {}, which another word has too", word, n));
    taken[n] = true;
    numbers.emplace(word, n);
  }
  return numbers;
}

bool looks_special(const std::string& word) {
  return word.size() > 2 &&
         ((word.front() == '<' && word.back() == '>') || (word.front() == '[' && word.back() == ']'));
}

core::result<merge_table> read_merges(const fs::path& path, std::string_view text, const fs::path& vocab_path,
                                      const word_numbers& numbers) {
  merge_lines lines(text);
  const auto wrong = [&](const std::string& why) {
    return fail(error_kind::bad_input, fmt::format("{}:{}: {}", path.string(), lines.number(), why));
  };
  merge_table table(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  std::vector<bool> made(max_vocabulary);
  uint32_t rank = 0;
  while (const auto next = lines.next()) {
    const std::string_view line = *next;
    const size_t space = line.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == line.size() ||
        line.find(' ', space + 1) != std::string_view::npos)
      return wrong(fmt::format("wanted two words with one space between them, got '{}'{}", core::shown(line, 80),
                               lines.is_cut() ? "; the file seems cut short" : ""));
    const std::string left(line.substr(0, space));
    const std::string right(line.substr(space + 1));
    std::array<uint32_t, 3> ids{};
    size_t i = 0;
    for (const auto& word : {left, right, left + right}) {
      const auto found = numbers.find(word);
      if (found == numbers.end())
        return wrong(
            fmt::format("the merge '{} {}' needs '{}', which is not in {}", left, right, word, vocab_path.string()));
      ids[i++] = found->second;
    }
    if (!table.add(ids[0], ids[1], {rank++, ids[2]}))
      return wrong(fmt::format("'{} {}' is also in an earlier line", left, right));
    made[ids[2]] = true;
  }
  std::vector<std::string> unmade;
  for (const auto& [word, number] : numbers)
    if (!made[number] && !looks_special(word) && core::utf8_character(word) != word.size()) unmade.push_back(word);
  if (unmade.size() > most_unmade_words)
    return wrong(fmt::format(
        "the file ends after {} merges, but {} words of {} do not result from them, such as '{}': wanted all merges",
        rank, unmade.size(), vocab_path.string(), *std::min_element(unmade.begin(), unmade.end())));
  return table;
}

/// Refuses the `model` of the tokenizer.json `path` if vocab.json and merges.txt do not state it.
core::result<void> check_pipeline_model(const fs::path& path, const nlohmann::json& model) {
  auto objection = objection_to_marks(model);
  if (!objection) objection = objection_to_merging(model);
  if (objection) return fail(error_kind::bad_input, fmt::format("'{}': {}", path.string(), *objection));
  return {};
}

/// Adds the folder's added words to the vocabulary. Refused: words that check_added_words() refuses, and an end of text
/// that no token has.
core::result<tokenizer_description> add_folder_words(const fs::path& folder, word_numbers& numbers,
                                                     byte_pair_vocabulary& out, special_words special_text) {
  TROUPE_ASSIGN(auto words, read_added_words(folder));
  const token_finder number_of = [&](std::string_view text) -> std::optional<uint32_t> {
    const auto at = numbers.find(std::string(text));
    return at == numbers.end() ? std::nullopt : std::optional(at->second);
  };
  std::vector<std::string_view> word_of(out.bytes_of.size());
  for (const auto& [word, number] : numbers) word_of[number] = word;
  TROUPE_TRY(check_added_words(
      folder, words, number_of,
      [&](uint32_t number) { return number < word_of.size() ? word_of[number] : std::string_view(); }, "vocab.json"));
  for (const auto& w : words) {
    numbers.emplace(w.text, w.id);
    if (w.id >= out.bytes_of.size()) out.bytes_of.resize(w.id + 1);
    out.bytes_of[w.id] = w.text;
  }
  tokenizer_description d{
      .kind = kind_of(out.rules), .vocab_size = out.bytes_of.size(), .end_of_text = {}, .digest = {}};
  TROUPE_ASSIGN(const auto special, read_special_tokens(folder, number_of, d.vocab_size));
  TROUPE_TRY(check_end_of_text(folder, special, "vocab.json"));
  d.end_of_text = special.end ? special.end : number_of("<|endoftext|>");
  d.marked = marked_in(special, words);
  TROUPE_TRY(check_rules_of_added_words(folder, words, out.rules));
  if (special_text == special_words::tokens) {
    auto named = special.named;
    if (d.end_of_text) named.push_back(*d.end_of_text);
    const auto text_of = [&](uint32_t t) {
      return t < out.bytes_of.size() ? std::string_view(out.bytes_of[t]) : std::string_view();
    };
    add_named_words(named, text_of, words);
  }
  out.added = added_words(std::move(words), d.end_of_text, special_text);
  return d;
}

}  // namespace

core::result<std::unique_ptr<tokenizer>> open_byte_pair(const fs::path& vocab, const fs::path& merges,
                                                        special_words special) {
  TROUPE_ASSIGN(const auto vocab_file, read_tokenizer_file(vocab));
  TROUPE_ASSIGN(const auto merges_file, read_tokenizer_file(merges));
  TROUPE_TRY(check_tokenizer_class(vocab.parent_path()));
  const fs::path pipeline = vocab.parent_path() / "tokenizer.json";
  TROUPE_ASSIGN(const auto keys, read_json_if_there(pipeline));
  TROUPE_ASSIGN(const auto rules,
                keys.is_null() ? text_rules_by_class(vocab.parent_path()) : text_rules_of(pipeline, keys));
  const auto& model = json_value_of(keys, "model");
  TROUPE_TRY(check_pipeline_model(pipeline, model));
  TROUPE_ASSIGN(auto numbers, read_vocab(vocab, vocab_file));
  if (const auto difference = difference_to_files(model, numbers, merges_file))
    return fail(error_kind::bad_input,
                fmt::format("'{}': {}: wanted one tokenizer in a folder: remove the files of the other",
                            pipeline.string(), *difference));
  TROUPE_ASSIGN(auto table, read_merges(merges, merges_file, vocab, numbers));

  const byte_alphabet alphabet;
  byte_pair_vocabulary out;
  out.merges = std::move(table);
  out.rules = rules;
  auto lost = alphabet.missing([&](const std::string& word) { return numbers.contains(word); });
  if (const auto fault = alphabet.fault_without(lost, !json_value_of(model, "unk_token").is_null()))
    return core::refused(fmt::format("'{}' is {}", vocab.string(), *fault));
  for (uint32_t b = 0; b < 256; ++b) {
    const auto found = numbers.find(alphabet.word_of(b));
    out.token_of[b] = found == numbers.end() ? no_byte_token : found->second;
  }
  for (const auto& [word, number] : numbers) {
    if (number >= out.bytes_of.size()) out.bytes_of.resize(number + 1);
    out.bytes_of[number] = alphabet.bytes_of(word);
  }
  TROUPE_ASSIGN(auto described, add_folder_words(vocab.parent_path(), numbers, out, special));
  described.lost_bytes = std::move(lost);
  described.file_digest = digest_of({vocab_file, merges_file, out.added.as_text(), unusual_rules(out.rules)});
  std::vector<std::string> words(out.bytes_of.size()), merged;
  for (const auto& [word, number] : numbers) words[number] = word;
  merge_lines lines(merges_file);
  while (const auto line = lines.next()) merged.emplace_back(*line);
  described.digest = vocabulary_digest(words, merged, out.added, out.rules);
  return make_byte_pair(std::move(out), std::move(described));
}

}  // namespace troupe::data
