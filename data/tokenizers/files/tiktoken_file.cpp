#include "data/tokenizers/files/tiktoken_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/number.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "data/tokenizers/files/named_rules.hpp"
#include "data/tokenizers/files/stored_file.hpp"
#include "data/tokenizers/text/base64.hpp"
#include "data/tokenizers/text/characters.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;
using special_list = std::vector<std::pair<uint32_t, std::string>>;

/// A model with known lists of words.
struct listed_model {
  std::string_view rules;                 ///< name of the row of named_rules.cpp with the model's rules
  std::optional<form_tables> composes{};  ///< as in ranked_words
  std::string_view begin, end;            ///< texts of the tokens that begin and end a text; empty: the model has none
  special_list (*special)(uint32_t words);
  std::string_view expression{};  ///< regular expression of the model, if no row has it; empty: that of the row
};

/// The pattern of cl100k_base. Llama 3's pattern differs only at the end of a text, where blanks after a line break are
/// one word with the line break.
constexpr std::string_view cl100k_expression =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s+(?![\s\S])|\s*[\r\n]|\s+(?!\S)|\s)";

special_list llama_3_special(uint32_t words) {
  constexpr uint32_t count = 256;
  special_list out;
  uint32_t reserved = 0;
  for (uint32_t i = 0; i < count; ++i) {
    std::string text;
    if (i == 0) text = "<|begin_of_text|>";
    if (i == 1) text = "<|end_of_text|>";
    if (i == 6) text = "<|start_header_id|>";
    if (i == 7) text = "<|end_header_id|>";
    if (i == 9) text = "<|eot_id|>";
    out.emplace_back(words + i, text.empty() ? fmt::format("<|reserved_special_token_{}|>", reserved++) : text);
  }
  return out;
}

special_list qwen_special(uint32_t words) {
  constexpr uint32_t extras = 205;
  special_list out{{words, "<|endoftext|>"}, {words + 1, "<|im_start|>"}, {words + 2, "<|im_end|>"}};
  for (uint32_t i = 0; i < extras; ++i) out.emplace_back(words + 3 + i, fmt::format("<|extra_{}|>", i));
  return out;
}

special_list cl100k_special(uint32_t) {
  return {{100257, "<|endoftext|>"},
          {100258, "<|fim_prefix|>"},
          {100259, "<|fim_middle|>"},
          {100260, "<|fim_suffix|>"},
          {100276, "<|endofprompt|>"}};
}

special_list o200k_special(uint32_t) { return {{199999, "<|endoftext|>"}, {200018, "<|endofprompt|>"}}; }

constexpr listed_model llama_3{"llama-bpe", std::nullopt, "<|begin_of_text|>", "<|end_of_text|>", llama_3_special};
// Qwen's own tokenizer is written in Python and composes characters by Python's tables.
constexpr listed_model qwen{"qwen2", form_tables::current, "", "<|endoftext|>", qwen_special};
constexpr listed_model cl100k{"llama-bpe", std::nullopt, "", "<|endoftext|>", cl100k_special, cl100k_expression};
constexpr listed_model o200k{"gpt-4o", std::nullopt, "", "<|endoftext|>", o200k_special};

/// Returns the words by rank.
core::result<std::vector<std::string>> read_list(const fs::path& file) {
  TROUPE_ASSIGN(const auto text, stored_text(file));
  std::vector<std::pair<uint32_t, std::string>> found;
  uint64_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const auto line = core::trimmed(rest.substr(0, rest.find('\n')), "\r");
    rest.remove_prefix(std::min(rest.size(), rest.find('\n') == rest.npos ? rest.size() : rest.find('\n') + 1));
    ++number;
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    auto word = from_base64(line.substr(0, space));
    const auto rank = space == line.npos ? std::nullopt : core::number_of<uint32_t>(line.substr(space + 1));
    if (!word || word->empty() || !rank || *rank >= max_vocabulary)
      return core::refused(fmt::format("{}:{}: wanted a word in base64 and its rank, got '{}'", file.string(), number,
                                       core::shown(line)));
    found.emplace_back(*rank, std::move(*word));
  }
  if (found.empty())
    return core::refused(
        fmt::format("'{}' is empty: wanted a word in base64 and its rank in every line", file.string()));
  std::ranges::sort(found);
  std::vector<std::string> out;
  for (auto& [rank, word] : found) {
    if (rank != out.size())
      return core::refused(fmt::format("'{}': wanted the ranks 0 to {}, each once, got {} in place of {}",
                                       file.string(), found.size() - 1, rank, out.size()));
    out.push_back(std::move(word));
  }
  return out;
}

core::result<const listed_model*> model_of_list(const fs::path& file, size_t words) {
  constexpr size_t llama_3_words = 128000, llama_3_special_tokens = 256;
  const auto name = file.filename().string();
  TROUPE_ASSIGN(const auto keys, stored_object_if_there(file.parent_path() / "tokenizer_config.json"));
  if (name == "cl100k_base.tiktoken") return &cl100k;
  if (name == "o200k_base.tiktoken") return &o200k;
  if (name == "qwen.tiktoken" || json_text_of(keys, "tokenizer_class") == "QWenTokenizer") return &qwen;
  if (file.extension() == ".model") {
    TROUPE_ASSIGN(const auto sizes, stored_object_if_there(file.parent_path() / "params.json"));
    const auto& size = json_value_of(sizes, "vocab_size");
    if (words == llama_3_words || (size.is_number_unsigned() && size.get<uint64_t>() == words + llama_3_special_tokens))
      return &llama_3;
  }
  return core::refused(fmt::format(
      "'{}' is a list of tiktoken with {} words, whose pattern is not known: wanted Llama 3's tokenizer.model (128000 "
      "words, or a params.json next to it with a vocab_size of 256 more), qwen.tiktoken, cl100k_base.tiktoken, "
      "o200k_base.tiktoken, or a tokenizer.json next to it",
      file.string(), words));
}

}  // namespace

bool is_tiktoken_list(const fs::path& file) {
  constexpr size_t longest_line = 512;
  const auto opened = core::source_file::open(file);
  if (!opened) return false;
  std::string begin(static_cast<size_t>(std::min<uint64_t>(opened->size(), longest_line)), '\0');
  if (!opened->read(0, std::as_writable_bytes(std::span(begin)))) return false;
  const auto line = core::trimmed(std::string_view(begin).substr(0, begin.find('\n')), "\r");
  const size_t space = line.find(' ');
  if (space == 0 || space == line.npos || !core::number_of<uint32_t>(line.substr(space + 1))) return false;
  return from_base64(line.substr(0, space)).has_value();
}

core::result<ranked_words> read_tiktoken(const fs::path& file) {
  TROUPE_ASSIGN(auto words, read_list(file));
  TROUPE_ASSIGN(const auto model, model_of_list(file, words.size()));
  TROUPE_ASSIGN(const auto keys, stored_object_if_there(file.parent_path() / "tokenizer_config.json"));
  ranked_words out{.words = std::move(words),
                   .special = {},
                   .expression = model->expression.empty() ? named_expression(model->rules) : model->expression,
                   .composes = model->composes};
  if (json_value_of(keys, "added_tokens_decoder").empty())
    out.special = model->special(static_cast<uint32_t>(out.words.size()));
  return out;
}

core::result<json> tiktoken_configuration(const fs::path& file) {
  TROUPE_ASSIGN(const auto words, read_list(file));
  TROUPE_ASSIGN(const auto model, model_of_list(file, words.size()));
  TROUPE_ASSIGN(auto out, stored_object_if_there(file.parent_path() / "tokenizer_config.json"));
  if (out.is_null()) out = json::object();
  const auto add = [&](const char* key, std::string_view text) {
    if (!text.empty() && json_value_of(out, key).is_null()) out[key] = text;
  };
  add("bos_token", model->begin);
  add("eos_token", model->end);
  if (!model->begin.empty() && !out.contains("add_bos_token")) out["add_bos_token"] = true;
  return out;
}

}  // namespace troupe::data
