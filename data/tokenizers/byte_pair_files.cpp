// Reads vocab.json and merges.txt as GPT-2's tokenizer writes them, and refuses what is cut short or of another kind.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/json_text.hpp"
#include "core/lfs_pointer.hpp"
#include "core/source_file.hpp"
#include "core/utf8.hpp"
#include "data/tokenizers/byte_alphabet.hpp"
#include "data/tokenizers/byte_pair.hpp"
#include "data/tokenizers/tokenizer_class.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;

/// Words of the vocabulary that neither a merge makes nor angle or square brackets mark as special. A few may be there
/// (fillers); more mean that merges.txt is not all there.
constexpr size_t most_unmade_words = 16;

core::result<std::string> open_text(const fs::path& path) {
  const auto file = core::source_file::open(path);
  if (!file) return fail(file.error());
  if (auto ok = core::refuse_lfs_pointer(*file); !ok) return fail(ok.error());
  if (file->size() > max_tokenizer_bytes)
    return fail(error_kind::limit, fmt::format("the tokenizer file '{}' has {} bytes, more than {}", path.string(),
                                               file->size(), max_tokenizer_bytes));
  return file->read_all(max_tokenizer_bytes);
}

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
                   fmt::format("the word '{}' has number {}, which another has too", word, n));
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
  uint64_t line_number = 0;
  const auto wrong = [&](const std::string& why) {
    return fail(error_kind::bad_input, fmt::format("{}:{}: {}", path.string(), line_number, why));
  };
  merge_table table(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  std::vector<bool> made(max_vocabulary);
  uint32_t rank = 0;
  while (!text.empty()) {
    ++line_number;
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    const bool last = end == std::string_view::npos;
    text.remove_prefix(last ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == line.size() ||
        line.find(' ', space + 1) != std::string_view::npos)
      return wrong(fmt::format("wanted two words with one space between them, got '{}'{}", line.substr(0, 80),
                               last ? "; the file seems cut short" : ""));
    const std::string left(line.substr(0, space));
    const std::string right(line.substr(space + 1));
    std::array<uint32_t, 3> ids{};
    size_t i = 0;
    for (const auto& word : {left, right, left + right}) {
      const auto found = numbers.find(word);
      if (found == numbers.end())
        return wrong(
            fmt::format("'{} {}' makes or takes '{}', which {} lacks", left, right, word, vocab_path.string()));
      ids[i++] = found->second;
    }
    if (!table.add(ids[0], ids[1], {rank++, ids[2]}))
      return wrong(fmt::format("'{} {}' stands in an earlier line too", left, right));
    made[ids[2]] = true;
  }
  std::vector<std::string> unmade;
  for (const auto& [word, number] : numbers)
    if (!made[number] && !looks_special(word) && core::utf8_character(word) != word.size()) unmade.push_back(word);
  if (unmade.size() > most_unmade_words)
    return wrong(fmt::format(
        "the file ends after {} merges, and {} words of {} come from none of them, such as '{}': wanted all merges",
        rank, unmade.size(), vocab_path.string(), *std::min_element(unmade.begin(), unmade.end())));
  return table;
}

/// Other families ship vocab.json and merges.txt too, but cut or normalise text in another way, which only the
/// tokenizer.json beside them says: ours would give tokens that their models never saw.
core::result<void> check_pipeline(const fs::path& path) {
  std::error_code ec;
  if (!fs::exists(path, ec)) return {};
  const auto file = open_text(path);
  if (!file) return fail(file.error());
  const auto parsed = core::parse_json(*file, max_tokenizer_json_depth);
  if (!parsed)
    return fail(error_kind::bad_input,
                fmt::format("'{}': wanted one JSON object, got {}", path.string(), parsed.error().why));
  const auto& json = *parsed;
  if (!json.is_object()) return fail(error_kind::bad_input, fmt::format("'{}': wanted one JSON object", path.string()));
  const auto wrong = [&](const char* key, const char* wanted, const nlohmann::json& got) {
    return fail(error_kind::bad_input,
                fmt::format("'{}': {}: wanted GPT-2's, {}, got {}", path.string(), key, wanted,
                            got.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 120)));
  };
  const auto normalizer = json.value("normalizer", nlohmann::json());
  if (!normalizer.is_null()) return wrong("normalizer", "which is null", normalizer);
  const nlohmann::json gpt2{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const auto cutter = json.value("pre_tokenizer", nlohmann::json());
  for (const auto& [key, value] : gpt2.items())
    if (!cutter.is_object() || cutter.value(key, key == "use_regex" ? value : nlohmann::json()) != value)
      return wrong("pre_tokenizer", "ByteLevel with its own pattern and no space in front", cutter);
  return {};
}

}  // namespace

core::result<std::unique_ptr<tokenizer>> open_byte_pair(const fs::path& vocab, const fs::path& merges) {
  const auto vocab_file = open_text(vocab);
  if (!vocab_file) return fail(vocab_file.error());
  const auto merges_file = open_text(merges);
  if (!merges_file) return fail(merges_file.error());
  if (auto ok = check_tokenizer_class(vocab.parent_path()); !ok) return fail(ok.error());
  if (auto ok = check_pipeline(vocab.parent_path() / "tokenizer.json"); !ok) return fail(ok.error());
  auto numbers = read_vocab(vocab, *vocab_file);
  if (!numbers) return fail(numbers.error());
  auto table = read_merges(merges, *merges_file, vocab, *numbers);
  if (!table) return fail(table.error());

  const byte_alphabet alphabet;
  byte_pair_vocabulary out;
  out.merges = std::move(*table);
  for (uint32_t b = 0; b < 256; ++b) {
    const auto found = numbers->find(alphabet.word_of(b));
    if (found == numbers->end())
      return fail(error_kind::bad_input,
                  fmt::format("'{}' is no byte-level vocabulary: it lacks '{}', which stands for byte {}",
                              vocab.string(), alphabet.word_of(b), b));
    out.token_of[b] = found->second;
  }
  tokenizer_description description;
  description.kind = "gpt2";
  for (const auto& [word, number] : *numbers) {
    if (number >= out.bytes_of.size()) out.bytes_of.resize(number + 1);
    out.bytes_of[number] = alphabet.bytes_of(word);
  }
  description.vocab_size = out.bytes_of.size();
  if (const auto found = numbers->find("<|endoftext|>"); found != numbers->end())
    description.end_of_text = found->second;
  description.digest = digest_of({*vocab_file, *merges_file});
  return make_byte_pair(std::move(out), std::move(description));
}

}  // namespace troupe::data
