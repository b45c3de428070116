// Knows the patterns of byte-level tokenizers, in the forms in which tokenizer.json and GGUF files name them.
#include "data/tokenizers/text/text_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/utf8.hpp"
#include "data/tokenizers/text/characters.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "data/tokenizers/text/word_expressions.hpp"

namespace troupe::data {
namespace {

using json = nlohmann::json;

struct pattern_row {
  word_pattern pattern;
  std::string_view name;        ///< llama.cpp's name
  bool is_split;                ///< true: tokenizer.json has the expression in a pre-tokenizer Split
  std::string_view expression;  ///< regular expression of words, in which `\s` stands for Unicode's White_Space
};

// GPT-2's pattern is that of the encoder of "Language models are unsupervised multitask learners" (Radford et al.
// 2019). SmolLM's files cut digits before GPT-2's pattern is applied, so that white space before a digit is one word.
constexpr std::array<pattern_row, 6> patterns{{
    {word_pattern::gpt2, "gpt-2", false, R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {word_pattern::smollm, "smollm", false,
     R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+)"},
    {word_pattern::llama3, "llama-bpe", true, llama_3_words},
    {word_pattern::qwen2, "qwen2", true, qwen_2_words},
    {word_pattern::gpt4o, "gpt-4o", true, gpt_4o_words},
    {word_pattern::tekken, "tekken", true, tekken_words},
}};

const pattern_row& row_of(word_pattern pattern) { return *std::ranges::find(patterns, pattern, &pattern_row::pattern); }

std::string type_of(const json& part) { return part.is_object() ? json_text_of(part, "type") : std::string(); }

/// True for the pre-tokenizer ByteLevel without a space before the text; `cuts`: it also cuts words.
bool is_byte_level(const json& part, bool cuts) {
  return type_of(part) == "ByteLevel" && !json_flag_of(part, "add_prefix_space", true) &&
         json_flag_of(part, "use_regex", true) == cuts;
}

/// Returns the pattern of the pre-tokenizer `cutter`; nullopt if it is not known.
std::optional<word_pattern> pattern_of(const json& cutter) {
  if (is_byte_level(cutter, true)) return word_pattern::gpt2;
  const auto& parts = json_value_of(cutter, "pretokenizers");
  if (type_of(cutter) != "Sequence" || !parts.is_array() || parts.size() != 2) return std::nullopt;
  const auto& first = parts[0];
  if (type_of(first) == "Digits" && json_flag_of(first, "individual_digits", false) && is_byte_level(parts[1], true))
    return word_pattern::smollm;
  // A Split makes words of the matches of its pattern if it isolates them, or if it removes all text between them.
  const bool keeps_matches =
      json_text_of(first, "behavior") == (json_flag_of(first, "invert", false) ? "Removed" : "Isolated");
  if (type_of(first) != "Split" || !keeps_matches || !is_byte_level(parts[1], false)) return std::nullopt;
  const auto split = json_text_of(json_value_of(first, "pattern"), "Regex");
  const auto row = std::ranges::find_if(patterns, [&](const auto& r) { return r.is_split && r.expression == split; });
  return row == patterns.end() ? std::nullopt : std::optional(row->pattern);
}

}  // namespace

std::string_view name_of(word_pattern pattern) { return row_of(pattern).name; }

std::optional<word_pattern> word_pattern_named(std::string_view name) {
  const auto row = std::ranges::find(patterns, name, &pattern_row::name);
  return row == patterns.end() ? std::nullopt : std::optional(row->pattern);
}

std::string_view written_expression_of(word_pattern pattern) { return row_of(pattern).expression; }

std::string expression_of(word_pattern pattern) {
  // Unicode's White_Space, listed explicitly: PCRE2's own \s includes U+180E, which Unicode removed in 2013.
  constexpr std::string_view spaces =
      R"(\x{9}-\x{d} \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
  std::string out;
  bool is_in_set = false;
  for (std::string_view rest = row_of(pattern).expression; !rest.empty();) {
    if (rest.starts_with("\\s") || rest.starts_with("\\S")) {
      const bool is_other = rest[1] == 'S';
      out += is_in_set ? std::string(spaces) : fmt::format("[{}{}]", is_other ? "^" : "", spaces);
      rest.remove_prefix(2);
      continue;
    }
    if (rest.front() == '[' || rest.front() == ']') is_in_set = rest.front() == '[';
    if (rest.front() == '\\') {
      out += rest.front();
      rest.remove_prefix(1);
    }
    out += rest.front();
    rest.remove_prefix(1);
  }
  return out;
}

std::string kind_of(const text_rules& rules) {
  return rules.words == word_pattern::gpt2 ? "gpt2" : std::string(name_of(rules.words));
}

text_rules usual_rules(word_pattern pattern) {
  return {.words = pattern,
          .composes = pattern == word_pattern::qwen2,
          .takes_whole_words = pattern == word_pattern::llama3};
}

std::string unusual_rules(const text_rules& rules) {
  const auto usual = usual_rules(rules.words);
  std::string out;
  if (rules.composes != usual.composes) out += rules.composes ? "composes\n" : "composes not\n";
  if (rules.tables != usual.tables) out += "composes by current tables\n";
  if (rules.takes_whole_words != usual.takes_whole_words)
    out += rules.takes_whole_words ? "takes whole words\n" : "takes no whole words\n";
  return out;
}

json composing_normalizer(form_tables tables) {
  json out{{"type", "NFC"}};
  if (tables == form_tables::current) out["tables"] = "current";
  return out;
}

std::optional<form_tables> tables_of_normalizer(const json& normalizer) {
  for (const auto tables : {form_tables::unicode_9, form_tables::current})
    if (normalizer == composing_normalizer(tables)) return tables;
  return std::nullopt;
}

core::result<text_rules> text_rules_of(const std::filesystem::path& path, const json& pipeline) {
  text_rules out;
  const auto& normalizer = json_value_of(pipeline, "normalizer");
  const auto& cutter = json_value_of(pipeline, "pre_tokenizer");
  const auto pattern = pattern_of(cutter);
  const auto tables = tables_of_normalizer(normalizer);
  out.composes = tables.has_value();
  out.tables = tables.value_or(form_tables::unicode_9);
  if (!pattern || (!normalizer.is_null() && !out.composes)) {
    const auto shown = [](const json& j) {
      return j.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 200);
    };
    return core::refused(fmt::format(
        "'{}': {}: wanted {}, got {}", path.string(), pattern ? "normalizer" : "pre_tokenizer",
        pattern ? "none, or NFC" : "the way in which GPT-2, SmolLM, Llama 3, Qwen2, GPT-4o or Mistral cut words",
        shown(pattern ? normalizer : cutter)));
  }
  out.words = *pattern;
  out.takes_whole_words = json_flag_of(json_value_of(pipeline, "model"), "ignore_merges", false);
  return out;
}

bool stands_apart(std::string_view text) {
  constexpr uint32_t first_mark = 0x300;
  return core::utf8_code(text) < first_mark || stands_apart_in(text, normal_form::composed);
}

std::optional<std::string> composed(std::string_view text, form_tables tables) {
  if (std::ranges::none_of(text, may_be_composed)) return std::nullopt;
  auto out = in_normal_form(text, normal_form::composed, tables);
  return out == text ? std::nullopt : std::optional(std::move(out));
}

}  // namespace troupe::data
