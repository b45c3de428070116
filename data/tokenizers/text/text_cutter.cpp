#include "data/tokenizers/text/text_cutter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "data/tokenizers/text/text_rules.hpp"

namespace troupe::data {
namespace {

using json = nlohmann::json;

/// A match of a step's pattern, or the text between two matches.
struct cut_element {
  size_t begin = 0, end = 0;
  bool is_match = false;
  bool has_match = false;  ///< true: the element contains a match of several characters
};

/// Returns a part of a word; `number` is the step that cut before it, unless the part begins the word.
cut_word part_of(const cut_word& word, const cut_element& part, uint32_t number) {
  const size_t begin = part.begin;
  return {.text = word.text.substr(begin, part.end - begin),
          .place = begin < word.text.size() ? word.place_of(begin) : word.place,
          .places = word.places == nullptr ? nullptr : word.places + begin,
          .cut_by = begin == 0 ? word.cut_by : std::optional(number),
          .begins_in_match = begin == 0 ? word.begins_in_match : word.has_match,
          .has_match = word.has_match || part.has_match};
}

}  // namespace

core::result<text_cutter> text_cutter::make(const json& keys, bool normalizer_moves) {
  text_cutter out;
  if (!keys.is_null()) TROUPE_TRY(out.add(keys, 0, normalizer_moves));
  if (out.has_two_adders_) return core::refused("two steps that put a space before words are not supported");
  return out;
}

core::result<text_cutter::behaviour> text_cutter::behaviour_named(const std::string& name) {
  constexpr std::pair<std::string_view, behaviour> names[] = {{"Removed", behaviour::removed},
                                                              {"Isolated", behaviour::isolated},
                                                              {"MergedWithPrevious", behaviour::joined_to_previous},
                                                              {"MergedWithNext", behaviour::joined_to_next},
                                                              {"Contiguous", behaviour::contiguous}};
  for (const auto& [known, value] : names)
    if (name == known) return value;
  return core::refused(
      fmt::format("behavior: wanted Removed, Isolated, MergedWithPrevious, MergedWithNext or "
                  "Contiguous, got '{}'",
                  core::shown(name)));
}

core::result<void> text_cutter::add_pattern(const pattern_node& pattern, behaviour matches, bool is_inverted) {
  TROUPE_ASSIGN(auto machine, pattern_machine::make(pattern));
  step one;
  one.pattern = std::move(machine);
  one.is_inverted = is_inverted;
  one.matches = matches;
  steps_.push_back(std::move(one));
  return {};
}

core::result<void> text_cutter::add_set(const character_set& set, behaviour matches) {
  return add_pattern(set_pattern(set), matches, false);
}

core::result<void> text_cutter::add_split(const json& keys) {
  TROUPE_TRY(check_known_keys(keys, {"type", "pattern", "behavior", "invert"}));
  TROUPE_ASSIGN(const auto matches, behaviour_named(json_text_of(keys, "behavior")));
  const bool is_inverted = json_flag_of(keys, "invert", false);
  const auto& pattern = json_value_of(keys, "pattern");
  if (const auto& text = json_value_of(pattern, "String"); text.is_string())
    return add_pattern(literal_pattern(text.get<std::string>()), matches, is_inverted);
  const auto& regex = json_value_of(pattern, "Regex");
  if (!regex.is_string()) return core::refused("pattern: wanted a String or a Regex");
  TROUPE_ASSIGN(const auto tree, parse_pattern(regex.get<std::string>()));
  return add_pattern(tree, matches, is_inverted);
}

core::result<void> text_cutter::add_metaspace(const json& keys, bool normalizer_moves) {
  TROUPE_TRY(check_known_keys(keys, {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}));
  const auto sign = json_text_of(keys, "replacement");
  if (sign.empty() || core::utf8_character(sign) != sign.size())
    return core::refused("replacement: wanted one character");
  const auto scheme = json_value_of(keys, "prepend_scheme").is_null() ? "always" : json_text_of(keys, "prepend_scheme");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return core::refused(fmt::format("prepend_scheme: wanted always, first or never, got '{}'", core::shown(scheme)));
  const bool adds = scheme != "never" && json_flag_of(keys, "add_prefix_space", true);
  if (scheme == "first" && !steps_.empty() && normalizer_moves)
    return core::refused("prepend_scheme: first after another step and a normalizer is not supported");
  step one;
  one.space = sign;
  one.adds_to_document = adds && scheme == "first";
  one.adds_to_words = adds && scheme == "always";
  has_two_adders_ = has_two_adders_ || (adds && adder_);
  if (adds && !adder_) adder_ = static_cast<uint32_t>(steps_.size());
  steps_.push_back(std::move(one));
  if (!json_flag_of(keys, "split", true)) return {};
  return add_pattern(literal_pattern(sign), behaviour::joined_to_next, false);
}

core::result<void> text_cutter::add(const json& keys, uint32_t depth, bool normalizer_moves) {
  const auto type = json_text_of(keys, "type");
  const auto within = [&](core::result<void> done) -> core::result<void> {
    if (done) return {};
    return fail(done.error().in(type));
  };
  if (is_byte_level_) return core::refused(fmt::format("{} after ByteLevel is not supported", core::shown(type)));
  if (steps_.size() >= max_pipeline_steps)
    return core::refused(fmt::format("more than {} steps are not supported", max_pipeline_steps));
  if (type == "Sequence") {
    TROUPE_TRY(within(check_known_keys(keys, {"type", "pretokenizers"})));
    const auto& parts = json_value_of(keys, "pretokenizers");
    if (!parts.is_array() || depth > max_pipeline_depth)
      return core::refused("Sequence: wanted a list of pre-tokenizers");
    for (const auto& one : parts) TROUPE_TRY(add(one, depth + 1, normalizer_moves));
    return {};
  }
  if (type == "Split") return within(add_split(keys));
  if (type == "Metaspace") return within(add_metaspace(keys, normalizer_moves));
  if (type == "ByteLevel") {
    TROUPE_TRY(within(check_known_keys(keys, {"type", "add_prefix_space", "trim_offsets", "use_regex"})));
    is_byte_level_ = true;
    if (json_flag_of(keys, "add_prefix_space", true)) {
      has_two_adders_ = has_two_adders_ || adder_;
      if (!adder_) adder_ = static_cast<uint32_t>(steps_.size());
      step one;
      one.space = " ";
      one.adds_to_words = true;
      steps_.push_back(std::move(one));
    }
    if (!json_flag_of(keys, "use_regex", true)) return {};
    TROUPE_ASSIGN(const auto tree, parse_pattern(written_expression_of(word_pattern::gpt2)));
    return within(add_pattern(tree, behaviour::isolated, false));
  }
  if (type == "Digits") {
    TROUPE_TRY(within(check_known_keys(keys, {"type", "individual_digits"})));
    const bool alone = json_flag_of(keys, "individual_digits", false);
    return add_set(category_named("N"), alone ? behaviour::isolated : behaviour::contiguous);
  }
  if (type == "Punctuation") {
    TROUPE_TRY(within(check_known_keys(keys, {"type", "behavior"})));
    const bool is_said = !json_value_of(keys, "behavior").is_null();
    TROUPE_ASSIGN(const auto matches, behaviour_named(is_said ? json_text_of(keys, "behavior") : "Isolated"));
    return add_set(punctuation(), matches);
  }
  if (type == "WhitespaceSplit" || type == "Whitespace" || type == "BertPreTokenizer")
    TROUPE_TRY(within(check_known_keys(keys, {"type"})));
  if (type == "WhitespaceSplit") return add_set(white_space(), behaviour::removed);
  if (type == "BertPreTokenizer") {
    TROUPE_TRY(add_set(white_space(), behaviour::removed));
    return add_set(punctuation(), behaviour::isolated);
  }
  if (type == "Whitespace") {  // expression: \w+|[^\w\s]+
    const auto many = [](const character_set& set) {
      pattern_node out{.is = pattern_node::kind::repeat, .least = 1};
      out.parts.push_back(set_pattern(set));
      return out;
    };
    pattern_node either{.is = pattern_node::kind::alternatives};
    either.parts.push_back(many(word_characters()));
    either.parts.push_back(many(word_characters().with(white_space()).others()));
    return add_pattern(either, behaviour::removed, true);
  }
  return core::refused(fmt::format("the type '{}' is not supported", core::shown(type)));
}

bool text_cutter::adds_to_document() const {
  return std::ranges::any_of(steps_, [](const step& s) { return s.adds_to_document; });
}

bool text_cutter::may_divide_words() const {
  return (!adder_ || *adder_ == 0) &&
         std::ranges::all_of(steps_, [](const step& s) { return !s.pattern || s.pattern->matches_one_character(); });
}

void text_cutter::forget() {
  texts_.clear();
  places_.clear();
}

cut_word text_cutter::changed(const step& by, const cut_word& word, bool adds) {
  auto& text = texts_.emplace_back();
  auto& places = places_.emplace_back();
  const auto put = [&](std::string_view bytes, size_t place) {
    text += bytes;
    places.insert(places.end(), bytes.size(), place);
  };
  for (size_t i = 0; i < word.text.size(); ++i) {
    if (word.text[i] == ' ')
      put(by.space, word.place_of(i));
    else
      put(word.text.substr(i, 1), word.place_of(i));
  }
  if (adds && !text.starts_with(by.space)) {
    text.insert(0, by.space);
    places.insert(places.begin(), by.space.size(), word.place_of(0));
  }
  cut_word out = word;
  out.text = text;
  out.places = places.data();
  return out;
}

core::result<void> text_cutter::cut_by(uint32_t number, const cut_word& word, std::vector<cut_word>& out) {
  const auto& by = steps_[number];
  const std::string_view text = word.text;
  std::vector<cut_element> elements;
  // `limit` is the byte at which a match begins that further text may extend, so later steps do not see text from there
  // on.
  size_t known = 0, limit = text.size();
  const auto add_element = [&](size_t begin, size_t end, bool is_match) {
    const bool has_match = is_match && !by.pattern->matches_one_character();
    if (begin < end) elements.push_back({begin, end, is_match != by.is_inverted, has_match});
  };
  for (;;) {
    TROUPE_ASSIGN(const auto next, by.pattern->find(text, known, word.is_open));
    if (next.is == pattern_find::kind::open) limit = next.begin;
    if (next.is != pattern_find::kind::found) break;
    add_element(known, next.begin, false);
    add_element(next.begin, next.end, true);
    known = next.end;
  }
  const bool joins = by.matches != behaviour::removed && by.matches != behaviour::isolated;
  // The text up to `limit` is not part of a match. If the word is open, this text may continue.
  if (!word.is_open || joins) add_element(known, limit, false);
  std::vector<cut_element> words;  // the parts of the word; is_match: the part is removed
  bool before = false;             // true: the previous element is a match
  const auto join = [&](const cut_element& e, bool joined) {
    if (joined && !words.empty()) {
      words.back().begin = std::min(words.back().begin, e.begin);
      words.back().end = std::max(words.back().end, e.end);
      words.back().has_match = words.back().has_match || e.has_match;
    } else {
      words.push_back({e.begin, e.end, false, e.has_match});
    }
    before = e.is_match;
  };
  switch (by.matches) {
    case behaviour::removed:
      words = elements;
      break;
    case behaviour::isolated:
      for (const auto& e : elements) join(e, false);
      break;
    case behaviour::contiguous:
      for (const auto& e : elements) join(e, e.is_match == before);
      break;
    case behaviour::joined_to_previous:
      for (const auto& e : elements) join(e, e.is_match && !before);
      break;
    case behaviour::joined_to_next:
      for (auto e = elements.rbegin(); e != elements.rend(); ++e) join(*e, e->is_match && !before);
      std::ranges::reverse(words);
      break;
  }
  // The end of the word that is still open. A step that removes the text between matches also removes it here.
  cut_element open{.begin = by.matches == behaviour::removed && by.is_inverted ? limit : known, .end = limit};
  if (word.is_open && joins && !words.empty()) {
    // The last part may still be joined with the text that follows.
    open = words.back();
    words.pop_back();
  }
  for (const auto& w : words)
    if (!w.is_match) out.push_back(part_of(word, w, number));
  if (!word.is_open || open.begin >= open.end) return {};
  out.push_back(part_of(word, open, number));
  out.back().is_open = true;
  return {};
}

core::result<void> text_cutter::cut(std::string_view text, const cut_text& about, std::vector<cut_word>& out) {
  if (text.empty()) return {};
  now_.assign(1, {.text = text, .is_open = about.is_open});
  for (uint32_t number = 0; number < steps_.size(); ++number) {
    const auto& by = steps_[number];
    next_.clear();
    for (const auto& word : now_) {
      if (by.pattern) {
        TROUPE_TRY(cut_by(number, word, next_));
        continue;
      }
      const bool is_first = !word.cut_by;
      // At the first step, a text that is not the beginning continues a word of the previous part, which has its sign
      // already.
      const bool has_begin = !is_first || about.is_begin || number > 0;
      const bool adds = by.adds_to_document ? is_first && about.is_begin && about.begins_document && word.place == 0
                                            : by.adds_to_words && has_begin;
      next_.push_back(changed(by, word, adds));
    }
    std::swap(now_, next_);
  }
  out.insert(out.end(), now_.begin(), now_.end());
  return {};
}

}  // namespace troupe::data
