#include "data/tokenizers/files/named_rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "data/tokenizers/text/text_rules.hpp"
#include "data/tokenizers/text/word_expressions.hpp"

namespace troupe::data {
namespace {

using json = nlohmann::json;
namespace fs = std::filesystem;

/// The way in which the rules of a name cut a text into words.
enum class cut : uint8_t {
  by_byte_level,  ///< the pre-tokenizer ByteLevel cuts by GPT-2's pattern
  at_digits,      ///< each digit is a word, then ByteLevel cuts
  by_expression,  ///< a Split isolates the matches of an expression
  in_steps,       ///< several Splits one after the other, as llama.cpp cuts without a tokenizer.json
};

struct named_row {
  std::string_view name;
  cut words = cut::by_byte_level;
  std::string_view expression{};   ///< regular expression of cut::by_expression
  bool composes = false;           ///< the normalizer is NFC
  bool takes_whole_words = false;  ///< ignore_merges
};

/// The expressions that cut::in_steps applies one after the other, each to the parts that the previous one has left.
constexpr std::array<std::string_view, 4> steps{
    R"([\p{P}\$\+<=>\^~\|]+)", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))", R"(\p{N}+)",
    R"([0-9][0-9][0-9])"};

// Source of names and expressions: llama.cpp's vocabularies (src/llama-vocab.cpp), and the tokenizer.json of the models
// for which its converter writes a name.
constexpr std::array<named_row, 8> rows{{
    {"gpt-2"},
    {"smollm", cut::at_digits},
    {"llama-bpe", cut::by_expression, llama_3_words, false, true},
    {"dbrx", cut::by_expression, llama_3_words},
    {"qwen2", cut::by_expression, qwen_2_words, true},
    {"gpt-4o", cut::by_expression, gpt_4o_words},
    {"tekken", cut::by_expression, tekken_words, false, true},
    {"default", cut::in_steps},
}};

/// Further names that llama.cpp uses for the rules of a row; these names are read but never written.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> other_names{{{"phi-2", "gpt-2"},
                                                                                    {"starcoder", "smollm"},
                                                                                    {"refact", "smollm"},
                                                                                    {"llama3", "llama-bpe"},
                                                                                    {"llama-v3", "llama-bpe"},
                                                                                    {"smaug-bpe", "dbrx"}}};

const named_row* row_named(std::string_view name) {
  const auto other = std::ranges::find(other_names, name, &std::pair<std::string_view, std::string_view>::first);
  const auto row = std::ranges::find(rows, other == other_names.end() ? name : other->second, &named_row::name);
  return row == rows.end() ? nullptr : &*row;
}

json split_at(std::string_view expression) {
  return {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json byte_level(bool cuts) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", cuts}};
}

json sequence_of(json parts) { return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}}; }

json pre_tokenizer_of_row(const named_row& row) {
  switch (row.words) {
    case cut::by_byte_level:
      return byte_level(true);
    case cut::at_digits:
      return sequence_of(json::array({{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)}));
    case cut::by_expression:
      return pre_tokenizer_of(row.expression);
    case cut::in_steps:
      break;
  }
  json parts = json::array();
  for (const auto expression : steps) parts.push_back(split_at(expression));
  parts.push_back(byte_level(false));
  return sequence_of(std::move(parts));
}

/// Returns the pre-tokenizer or normalizer in a form for comparison, without keys that change no token: nested
/// sequences are flattened, defaults are written out, and a Split that removes the text between matches becomes one
/// that isolates them (these patterns match every character). A kind that no row has stays unchanged.
json plain_form(const json& part) {
  const auto type = json_text_of(part, "type");
  if (type == "Sequence") {
    json out = json::array();
    for (const char* key : {"pretokenizers", "normalizers"})
      for (const auto& one : json_value_of(part, key))
        for (auto& plain : plain_form(one)) out.push_back(std::move(plain));
    return out;
  }
  if (part.is_null()) return json::array();
  if (tables_of_normalizer(part)) return json::array({composing_normalizer(form_tables::unicode_9)});
  json out = part;
  if (type == "ByteLevel") {
    out = {{"type", type},
           {"add_prefix_space", json_flag_of(part, "add_prefix_space", true)},
           {"use_regex", json_flag_of(part, "use_regex", true)}};
  } else if (type == "Split" && json_text_of(part, "behavior") == "Removed" && json_flag_of(part, "invert", false)) {
    out["behavior"] = "Isolated";
    out["invert"] = false;
  }
  return json::array({std::move(out)});
}

json normalizer_of_row(const named_row& row) {
  return row.composes ? composing_normalizer(form_tables::unicode_9) : json();
}

std::string shown_json(const json& j) { return j.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 200); }

}  // namespace

std::string_view named_expression(std::string_view name) {
  const auto* const row = row_named(name);
  return row == nullptr ? std::string_view() : row->expression;
}

json pre_tokenizer_of(std::string_view expression) {
  return sequence_of(json::array({split_at(expression), byte_level(false)}));
}

json byte_pair_model(json vocabulary, json merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

core::result<void> put_named_rules(std::string_view name, json& pipeline) {
  const auto* const row = row_named(name);
  if (row == nullptr) {
    std::vector<std::string_view> known;
    for (const auto& r : rows) known.push_back(r.name);
    return core::refused(fmt::format(
        "tokenizer.ggml.pre: wanted one of {}, got '{}': give the model's own tokenizer, a folder with tokenizer.json",
        fmt::join(known, ", "), core::shown(name)));
  }
  pipeline["normalizer"] = normalizer_of_row(*row);
  pipeline["pre_tokenizer"] = pre_tokenizer_of_row(*row);
  pipeline["model"]["ignore_merges"] = row->takes_whole_words;
  return {};
}

core::result<std::string> name_of_rules(const fs::path& path, const json& pipeline) {
  const auto& cutter = json_value_of(pipeline, "pre_tokenizer");
  const auto& normalizer = json_value_of(pipeline, "normalizer");
  const bool takes_whole_words = json_flag_of(json_value_of(pipeline, "model"), "ignore_merges", false);
  const auto refused = [&](std::string_view key, std::string_view wanted, const std::string& got) {
    return core::refused(fmt::format(
        "'{}': {}: wanted {}, got {}: a GGUF file names its rules, and no name says these: export with to-hf instead",
        path.string(), key, wanted, got));
  };
  const named_row* nearest = nullptr;
  bool is_normalizer_wrong = true;
  for (const auto& row : rows) {
    if (plain_form(cutter) != plain_form(pre_tokenizer_of_row(row))) continue;
    const bool is_composed_alike = plain_form(normalizer) == plain_form(normalizer_of_row(row));
    if (is_composed_alike && takes_whole_words == row.takes_whole_words) return std::string(row.name);
    if (nearest != nullptr && !is_composed_alike) continue;
    nearest = &row;
    is_normalizer_wrong = !is_composed_alike;
  }
  if (nearest == nullptr)
    return refused("pre_tokenizer", "one that llama.cpp has a name for, such as GPT-2's, Llama 3's or Qwen2's",
                   shown_json(cutter));
  if (is_normalizer_wrong)
    return refused("normalizer", fmt::format("{}, as {} has", nearest->composes ? "NFC" : "none", nearest->name),
                   shown_json(normalizer));
  return refused("model.ignore_merges", fmt::format("{}, as {} has", nearest->takes_whole_words, nearest->name),
                 takes_whole_words ? "true" : "false");
}

}  // namespace troupe::data
