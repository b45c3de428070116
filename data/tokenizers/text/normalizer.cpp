#include "data/tokenizers/text/normalizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/tokenizers/text/characters.hpp"
#include "data/tokenizers/text/charsmap.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "data/tokenizers/text/pattern_machine.hpp"
#include "data/tokenizers/text/text_rules.hpp"

namespace troupe::data {

struct normalizer::step {
  enum class kind : uint8_t {
    form,
    lower_case,
    remove_marks,             ///< all marks (StripAccents)
    remove_nonspacing_marks,  ///< marks without a width (BertNormalizer)
    clean,                    ///< removes control characters, makes other blanks spaces
    space_ideographs,         ///< puts spaces around each Chinese character
    replace,
    prepend,
    strip,
    rewrite,
  };
  kind is = kind::form;
  normal_form form = normal_form::composed;
  form_tables tables = form_tables::unicode_9;
  std::string text{};  ///< text that prepend puts before a text, or replace puts in place of matches
  std::optional<pattern_machine> pattern{};
  bool strips_begin = false, strips_end = false;
  charsmap rules{};
};

namespace {

using json = nlohmann::json;
using step_kind = normalizer::step::kind;

bool is_ideograph(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

/// Characters that BertNormalizer removes: control, format and private characters except line breaks and tabs, and
/// U+FFFD.
const character_set& uncleaned() {
  static const auto all = [] {
    const character_set kept({{'\t', '\n'}, {'\r', '\r'}});
    return unseen_characters().without(kept).with(character_set(uint32_t{0xFFFD}));
  }();
  return all;
}

/// Calls `each` with the code and the bytes of every character of `text`.
void for_characters(std::string_view text, auto&& each) {
  while (!text.empty()) {
    const auto bytes = text.substr(0, core::utf8_character(text));
    each(core::utf8_code(bytes), bytes);
    text.remove_prefix(bytes.size());
  }
}

std::string without(std::string_view text, const character_set& removed) {
  std::string out;
  for_characters(text, [&](uint32_t c, std::string_view bytes) {
    if (!removed.has(c)) out += bytes;
  });
  return out;
}

core::result<std::string> replaced(std::string_view text, const pattern_machine& pattern, std::string_view by) {
  std::string out;
  size_t at = 0;
  for (;;) {
    TROUPE_ASSIGN(const auto next, pattern.find(text, at, false));
    if (next.is != pattern_find::kind::found) break;
    out += text.substr(at, next.begin - at);
    out += by;
    at = next.end;
  }
  return out += text.substr(at);
}

std::string stripped(std::string_view text, bool at_begin, bool at_end) {
  size_t begin = text.size(), end = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = core::utf8_character(text.substr(at));
    if (!white_space().has(core::utf8_code(text.substr(at)))) {
      begin = std::min(begin, at);
      end = at + bytes;
    }
    at += bytes;
  }
  if (!at_begin) begin = 0;
  if (!at_end) end = text.size();
  return std::string(begin < end ? text.substr(begin, end - begin) : std::string_view());
}

core::result<std::string> after_step(const normalizer::step& step, std::string text, text_ends ends) {
  std::string out;
  switch (step.is) {
    case step_kind::form:
      return in_normal_form(text, step.form, step.tables);
    case step_kind::lower_case:
      for_characters(text, [&](uint32_t c, std::string_view) { append_lower_case(c, out); });
      return out;
    case step_kind::remove_marks:
      return without(text, all_marks());
    case step_kind::remove_nonspacing_marks:
      return without(text, nonspacing_marks());
    case step_kind::clean:
      for_characters(text, [&](uint32_t c, std::string_view bytes) {
        if (c != 0 && !uncleaned().has(c)) out += white_space().has(c) ? " " : bytes;
      });
      return out;
    case step_kind::space_ideographs:
      for_characters(text, [&](uint32_t c, std::string_view bytes) {
        const bool is_spaced = is_ideograph(c);
        if (is_spaced) out += ' ';
        out += bytes;
        if (is_spaced) out += ' ';
      });
      return out;
    case step_kind::replace:
      return replaced(text, *step.pattern, step.text);
    case step_kind::prepend:
      return text.empty() || !ends.has_begin ? text : step.text + text;
    case step_kind::strip:
      return stripped(text, step.strips_begin && ends.has_begin, step.strips_end && ends.has_end);
    case step_kind::rewrite:
      break;
  }
  return step.rules.rewritten(text);
}

/// True if some places before a character are certain to divide a text for this step, whatever the text around them.
/// For other steps only a place between two ASCII characters is certain.
bool is_local(const normalizer::step& step) {
  if (step.is == step_kind::replace) return step.pattern->matches_one_character();
  return step.is != step_kind::strip && step.is != step_kind::rewrite;
}

core::result<pattern_machine> machine_for(const json& pattern) {
  if (const auto& regex = json_value_of(pattern, "Regex"); regex.is_string()) {
    TROUPE_ASSIGN(const auto tree, parse_pattern(regex.get<std::string>()));
    return pattern_machine::make(tree);
  }
  if (const auto& text = json_value_of(pattern, "String"); text.is_string())
    return pattern_machine::make(literal_pattern(text.get<std::string>()));
  return core::refused("pattern: wanted a String or a Regex");
}

}  // namespace

normalizer::normalizer() = default;
normalizer::normalizer(normalizer&&) noexcept = default;
normalizer& normalizer::operator=(normalizer&&) noexcept = default;
normalizer::~normalizer() = default;

core::result<normalizer> normalizer::make(const json& keys) {
  normalizer out;
  if (!keys.is_null()) TROUPE_TRY(out.add(keys, 0));
  return out;
}

core::result<void> normalizer::add(const json& keys, uint32_t depth) {
  if (steps_.size() >= max_pipeline_steps)
    return core::refused(fmt::format("more than {} steps are not supported", max_pipeline_steps));
  const auto type = json_text_of(keys, "type");
  const auto known = [&](std::initializer_list<std::string_view> names) { return check_known_keys(keys, names); };
  const auto needed = [&](const char* key) -> core::result<void> {
    if (json_value_of(keys, key).is_string()) return {};
    return core::refused(fmt::format("{}: wanted the key '{}'", type, key));
  };
  const auto plain = [&](step one) -> core::result<void> {
    TROUPE_TRY(known({"type"}));
    steps_.push_back(std::move(one));
    return {};
  };
  if (type == "Sequence") {
    TROUPE_TRY(known({"type", "normalizers"}));
    const auto& parts = json_value_of(keys, "normalizers");
    if (!parts.is_array() || depth > max_pipeline_depth) return core::refused("Sequence: wanted a list of normalizers");
    for (const auto& one : parts) TROUPE_TRY(add(one, depth + 1));
    return {};
  }
  if (const auto tables = tables_of_normalizer(keys)) {
    steps_.push_back({.is = step_kind::form, .form = normal_form::composed, .tables = *tables});
    return {};
  }
  if (type == "NFC") return plain({.is = step_kind::form, .form = normal_form::composed});
  if (type == "NFD") return plain({.is = step_kind::form, .form = normal_form::decomposed});
  if (type == "NFKC") return plain({.is = step_kind::form, .form = normal_form::compatible_composed});
  if (type == "NFKD") return plain({.is = step_kind::form, .form = normal_form::compatible_decomposed});
  if (type == "Lowercase") return plain({.is = step_kind::lower_case});
  if (type == "StripAccents") return plain({.is = step_kind::remove_marks});
  if (type == "Prepend") {
    TROUPE_TRY(known({"type", "prepend"}));
    TROUPE_TRY(needed("prepend"));
    steps_.push_back({.is = step_kind::prepend, .text = json_text_of(keys, "prepend")});
    return {};
  }
  if (type == "Strip") {
    TROUPE_TRY(known({"type", "strip_left", "strip_right"}));
    steps_.push_back({.is = step_kind::strip,
                      .strips_begin = json_flag_of(keys, "strip_left", true),
                      .strips_end = json_flag_of(keys, "strip_right", true)});
    return {};
  }
  if (type == "Replace") {
    TROUPE_TRY(known({"type", "pattern", "content"}));
    TROUPE_TRY(needed("content"));
    step one{.is = step_kind::replace, .text = json_text_of(keys, "content")};
    auto machine = machine_for(json_value_of(keys, "pattern"));
    if (!machine) return fail(machine.error().in("Replace"));
    one.pattern = std::move(*machine);
    steps_.push_back(std::move(one));
    return {};
  }
  if (type == "Precompiled") {
    TROUPE_TRY(known({"type", "precompiled_charsmap"}));
    TROUPE_TRY(needed("precompiled_charsmap"));
    auto rules = charsmap::make(json_text_of(keys, "precompiled_charsmap"));
    if (!rules) return fail(rules.error().in("Precompiled: precompiled_charsmap"));
    steps_.push_back({.is = step_kind::rewrite, .rules = std::move(*rules)});
    return {};
  }
  if (type == "BertNormalizer") {
    TROUPE_TRY(known({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}));
    const bool lowers = json_flag_of(keys, "lowercase", true);
    if (json_flag_of(keys, "clean_text", true)) steps_.push_back({.is = step_kind::clean});
    if (json_flag_of(keys, "handle_chinese_chars", true)) steps_.push_back({.is = step_kind::space_ideographs});
    if (json_flag_of(keys, "strip_accents", lowers)) {
      steps_.push_back({.is = step_kind::form, .form = normal_form::decomposed});
      steps_.push_back({.is = step_kind::remove_nonspacing_marks});
    }
    if (lowers) steps_.push_back({.is = step_kind::lower_case});
    return {};
  }
  return core::refused(fmt::format("the type '{}' is not supported", core::shown(type)));
}

core::result<std::string> normalizer::apply(std::string_view text, text_ends ends) const {
  std::string out(text);
  for (const auto& step : steps_) {
    TROUPE_ASSIGN(auto next, after_step(step, std::move(out), ends));
    out = std::move(next);
  }
  return out;
}

bool normalizer::is_nothing() const { return steps_.empty(); }

bool normalizer::acts_at_begin() const {
  return std::ranges::any_of(
      steps_, [](const step& s) { return s.is == step_kind::prepend || (s.is == step_kind::strip && s.strips_begin); });
}

bool normalizer::removes() const {
  return std::ranges::any_of(steps_, [](const step& s) {
    return s.is == step_kind::remove_marks || s.is == step_kind::remove_nonspacing_marks || s.is == step_kind::clean ||
           (s.is == step_kind::strip && s.strips_begin) || (s.is == step_kind::replace && s.text.empty());
  });
}

bool normalizer::divides(std::string_view text, size_t at) const {
  const std::string_view after = text.substr(at);
  if (!std::ranges::all_of(steps_, is_local)) {
    // Two ASCII signs that no pattern may contain, the second one a letter or digit, never belong to one cluster, one
    // match or one run of blanks.
    const char before = text[at - 1], here = after[0];
    const auto is_replaced = [&](char sign) {
      return std::ranges::any_of(steps_, [&](const step& s) {
        const char lower = core::ascii_lower(sign);
        return s.is == step_kind::replace && (s.pattern->may_have(static_cast<unsigned char>(sign)) ||
                                              s.pattern->may_have(static_cast<unsigned char>(lower)));
      });
    };
    return before > ' ' && before < '\x7F' && core::is_ascii_word(here) && !is_replaced(before) && !is_replaced(here);
  }
  // A text may be divided before a character that no step removes and that is never composed with characters before it.
  static const auto kept = category_named("M").with(all_marks()).with(category_named("C")).others();
  const uint32_t code = core::utf8_code(after);
  if (!kept.has(code)) return false;
  return std::ranges::all_of(steps_, [&](const step& s) {
    if (s.is == step_kind::form) return stands_apart_in(after, s.form);
    return s.is != step_kind::replace || !s.pattern->may_have(code) ||
           (!s.text.empty() && stands_apart_in(s.text, normal_form::compatible_decomposed));
  });
}

}  // namespace troupe::data
