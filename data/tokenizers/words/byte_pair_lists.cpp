// Makes a byte-pair tokenizer from lists of words and merges, as files of weights contain them.
#include <fmt/format.h>

#include <unordered_map>

#include "core/text.hpp"
#include "data/tokenizers/text/byte_alphabet.hpp"
#include "data/tokenizers/words/byte_pair.hpp"

namespace troupe::data {

std::string vocabulary_digest(const std::vector<std::string>& words, const std::vector<std::string>& merges,
                              const added_words& added, const text_rules& rules) {
  std::string all;
  for (const auto& list : {&words, &merges})
    for (const auto& text : *list) all += text + "\n";
  return digest_of({all, added.as_text(), unusual_rules(rules)});
}

core::result<std::unique_ptr<tokenizer>> byte_pair_of(const std::vector<std::string>& words,
                                                      const std::vector<std::string>& merges,
                                                      std::optional<uint32_t> end_of_text, added_words added,
                                                      const text_rules& rules) {
  const byte_alphabet alphabet;
  std::unordered_map<std::string_view, uint32_t> numbers;
  byte_pair_vocabulary out;
  for (const auto& word : words) {
    if (!word.empty()) numbers.emplace(word, static_cast<uint32_t>(out.bytes_of.size()));
    out.bytes_of.push_back(alphabet.bytes_of(word));
  }
  auto lost = alphabet.missing([&](const std::string& word) { return numbers.contains(word); });
  if (auto fault = alphabet.fault_without(lost, false)) return core::refused(*std::move(fault));
  for (uint32_t b = 0; b < 256; ++b) {
    const auto found = numbers.find(alphabet.word_of(b));
    out.token_of[b] = found == numbers.end() ? no_byte_token : found->second;
  }
  out.merges = merge_table(merges.size() + 1);
  uint32_t rank = 0;
  for (const auto& merge : merges) {
    const size_t space = merge.find(' ');
    const auto token = [&](const std::string& word) {
      const auto found = numbers.find(word);
      return found == numbers.end() ? words.size() : found->second;
    };
    const auto left = token(merge.substr(0, space)),
               right = space == std::string::npos ? words.size() : token(merge.substr(space + 1));
    const auto both =
        space == std::string::npos ? words.size() : token(merge.substr(0, space) + merge.substr(space + 1));
    if (left >= words.size() || right >= words.size() || both >= words.size())
      return fail(error_kind::bad_input,
                  fmt::format("the merge '{}' uses words that are not in the vocabulary", core::shown(merge)));
    if (!out.merges.add(static_cast<uint32_t>(left), static_cast<uint32_t>(right),
                        {rank++, static_cast<uint32_t>(both)}))
      return core::refused(fmt::format("the merge '{}' occurs twice", core::shown(merge)));
  }
  tokenizer_description description;
  description.kind = kind_of(rules);
  description.vocab_size = words.size();
  description.lost_bytes = std::move(lost);
  if (const auto found = numbers.find("<|endoftext|>"); found != numbers.end()) description.end_of_text = found->second;
  if (end_of_text && *end_of_text < words.size()) description.end_of_text = end_of_text;
  description.digest = vocabulary_digest(words, merges, added, rules);
  for (const auto& w : added.words())
    if (w.id < out.bytes_of.size()) out.bytes_of[w.id] = w.text;
  out.added = std::move(added);
  out.rules = rules;
  return make_byte_pair(std::move(out), std::move(description));
}

}  // namespace troupe::data
