#include "data/tokenizers/text/decoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/tokenizers/text/byte_alphabet.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "data/tokenizers/text/pattern_machine.hpp"

namespace troupe::data {

struct decoder::step {
  enum class kind : uint8_t { bytes, pieces, spaces, word_ends, byte_tokens, fuse, replace, strip };
  kind is = kind::fuse;
  /// depends on `is`: prefix of pieces, sign of spaces, suffix of words, character to strip, or replacement
  std::string text{};
  /// kind spaces: true: the signs of spaces in the first token are removed instead of becoming spaces
  bool tidies = false;
  bool drops_first = false;           ///< kind spaces: true: the first token loses its leading sign
  uint64_t at_begin = 0, at_end = 0;  ///< kind strip: largest number of characters to remove at each end
  std::optional<pattern_machine> pattern{};
};

namespace {

using json = nlohmann::json;
using decoder_kind = decoder::step::kind;

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  if (what.empty()) return;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

/// Removes spaces before signs, as BERT's decoder does.
void tidy(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> rules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, by] : rules) replace_all(text, what, by);
}

/// Returns the byte that a token such as `<0x0A>` stands for.
std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  const auto digit = [](char c) -> int {
    const char lower = core::ascii_lower(c);
    return lower >= '0' && lower <= '9' ? lower - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  const int high = digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? std::nullopt : std::optional(static_cast<char>(high * 16 + low));
}

void join_byte_tokens(std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (core::is_utf8(bytes))
      out.push_back(bytes);
    else
      out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    bytes.clear();
  };
  for (auto& token : tokens) {
    if (const auto byte = byte_of_token(token)) {
      bytes.push_back(*byte);
      continue;
    }
    flush();
    out.push_back(std::move(token));
  }
  flush();
  tokens = std::move(out);
}

/// Removes the character `sign` from both ends of a token, at most `at_begin` and `at_end` times.
void strip_token(std::string& token, const std::string& sign, uint64_t at_begin, uint64_t at_end) {
  std::string_view rest = token;
  for (; at_begin > 0 && rest.starts_with(sign); --at_begin) rest.remove_prefix(sign.size());
  for (; at_end > 0 && rest.ends_with(sign); --at_end) rest.remove_suffix(sign.size());
  token = std::string(rest);
}

void replace_matches(std::string& token, const pattern_machine& pattern, std::string_view by) {
  std::string out;
  size_t at = 0;
  for (;;) {
    const auto next = pattern.find(token, at, false);
    if (!next || next->is != pattern_find::kind::found) break;
    out += std::string_view(token).substr(at, next->begin - at);
    out += by;
    at = next->end;
  }
  token = out + token.substr(at);
}

void apply_step(const decoder::step& step, std::vector<std::string>& tokens) {
  switch (step.is) {
    case decoder_kind::bytes: {
      const byte_alphabet alphabet;
      std::string all;
      for (const auto& token : tokens) all += alphabet.bytes_of(token);
      tokens.assign(1, all);
      return;
    }
    case decoder_kind::pieces:
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (i > 0 && tokens[i].starts_with(step.text))
          tokens[i].erase(0, step.text.size());
        else if (i > 0)
          tokens[i].insert(tokens[i].begin(), ' ');
        if (step.tidies) tidy(tokens[i]);
      }
      return;
    case decoder_kind::spaces:
      for (size_t i = 0; i < tokens.size(); ++i)
        replace_all(tokens[i], step.text, i == 0 && step.drops_first ? "" : " ");
      return;
    case decoder_kind::word_ends:
      for (size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], step.text, i + 1 == tokens.size() ? "" : " ");
      return;
    case decoder_kind::byte_tokens:
      join_byte_tokens(tokens);
      return;
    case decoder_kind::fuse: {
      std::string all;
      for (const auto& token : tokens) all += token;
      tokens.assign(1, all);
      return;
    }
    case decoder_kind::replace:
      for (auto& token : tokens) replace_matches(token, *step.pattern, step.text);
      return;
    case decoder_kind::strip:
      for (auto& token : tokens) strip_token(token, step.text, step.at_begin, step.at_end);
      return;
  }
}

bool is_character(std::string_view text) { return !text.empty() && core::utf8_character(text) == text.size(); }

uint64_t count_of(const json& keys, const char* key) {
  const auto& value = json_value_of(keys, key);
  return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
}

}  // namespace

decoder::decoder() = default;
decoder::decoder(decoder&&) noexcept = default;
decoder& decoder::operator=(decoder&&) noexcept = default;
decoder::~decoder() = default;

core::result<decoder> decoder::make(const json& keys) {
  decoder out;
  if (keys.is_null()) return out;
  out.has_decoder_ = true;
  TROUPE_TRY(out.add(keys, 0));
  return out;
}

core::result<void> decoder::add(const json& keys, uint32_t depth) {
  if (steps_.size() >= max_pipeline_steps)
    return core::refused(fmt::format("more than {} steps are not supported", max_pipeline_steps));
  const auto type = json_text_of(keys, "type");
  if (type == "Sequence") {
    TROUPE_TRY(check_known_keys(keys, {"type", "decoders"}));
    const auto& parts = json_value_of(keys, "decoders");
    if (!parts.is_array() || depth > max_pipeline_depth) return core::refused("Sequence: wanted a list of decoders");
    for (const auto& one : parts) TROUPE_TRY(add(one, depth + 1));
    return {};
  }
  step one;
  if (type == "ByteLevel") {
    TROUPE_TRY(check_known_keys(keys, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    one.is = decoder_kind::bytes;
  } else if (type == "WordPiece") {
    TROUPE_TRY(check_known_keys(keys, {"type", "prefix", "cleanup"}));
    one.is = decoder_kind::pieces;
    one.text = json_value_of(keys, "prefix").is_null() ? "##" : json_text_of(keys, "prefix");
    one.tidies = json_flag_of(keys, "cleanup", true);
  } else if (type == "Metaspace") {
    TROUPE_TRY(
        check_known_keys(keys, {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}));
    one.is = decoder_kind::spaces;
    one.text = json_text_of(keys, "replacement");
    if (!is_character(one.text)) return core::refused("Metaspace: replacement: wanted one character");
    one.drops_first = json_text_of(keys, "prepend_scheme") != "never" && json_flag_of(keys, "add_prefix_space", true);
  } else if (type == "BPEDecoder") {
    TROUPE_TRY(check_known_keys(keys, {"type", "suffix"}));
    one.is = decoder_kind::word_ends;
    one.text = json_value_of(keys, "suffix").is_null() ? "</w>" : json_text_of(keys, "suffix");
  } else if (type == "ByteFallback" || type == "Fuse") {
    TROUPE_TRY(check_known_keys(keys, {"type"}));
    one.is = type == "Fuse" ? decoder_kind::fuse : decoder_kind::byte_tokens;
  } else if (type == "Replace") {
    TROUPE_TRY(check_known_keys(keys, {"type", "pattern", "content"}));
    one.is = decoder_kind::replace;
    one.text = json_text_of(keys, "content");
    const auto& pattern = json_value_of(keys, "pattern");
    const auto& regex = json_value_of(pattern, "Regex");
    TROUPE_ASSIGN(const auto tree, regex.is_string()
                                       ? parse_pattern(regex.get<std::string>())
                                       : core::result<pattern_node>(literal_pattern(json_text_of(pattern, "String"))));
    TROUPE_ASSIGN(one.pattern, pattern_machine::make(tree));
  } else if (type == "Strip") {
    TROUPE_TRY(check_known_keys(keys, {"type", "content", "start", "stop"}));
    one.is = decoder_kind::strip;
    one.text = json_text_of(keys, "content");
    if (!is_character(one.text)) return core::refused("Strip: content: wanted one character");
    one.at_begin = count_of(keys, "start");
    one.at_end = count_of(keys, "stop");
  } else {
    return core::refused(fmt::format("the type '{}' is not supported", core::shown(type)));
  }
  steps_.push_back(std::move(one));
  return {};
}

std::string decoder::text_of(std::vector<std::string> tokens) const {
  for (const auto& step : steps_)
    if (!tokens.empty()) apply_step(step, tokens);
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !has_decoder_) out += ' ';
    out += tokens[i];
  }
  return out;
}

}  // namespace troupe::data
