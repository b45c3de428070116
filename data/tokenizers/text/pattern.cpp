#include "data/tokenizers/text/pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/text.hpp"
#include "core/utf8.hpp"

namespace troupe::data {
namespace {

using node_kind = pattern_node::kind;

pattern_node look_node(character_set set, bool at_end) {
  return {.is = node_kind::look, .set = std::move(set), .at_end = at_end};
}

pattern_node list_node(node_kind is, std::vector<pattern_node> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return {.is = is, .parts = std::move(parts)};
}

pattern_node repeat_node(pattern_node part, uint32_t least, std::optional<uint32_t> most, bool is_greedy) {
  pattern_node out{.is = node_kind::repeat, .least = least, .most = most, .is_greedy = is_greedy};
  out.parts.push_back(std::move(part));
  return out;
}

/// A set of characters, or the end of the text, that a look-ahead examines.
struct one_place {
  character_set set;
  bool at_end = false;
};

/// Returns the set of next characters, or the end of the text, for which the part matches, if one character decides;
/// else nullopt.
std::optional<one_place> one_place_of(const pattern_node& part) {
  if (part.is == node_kind::set) return one_place{part.set, false};
  if (part.is == node_kind::look) return one_place{part.set, part.at_end};
  if (part.is != node_kind::alternatives) return std::nullopt;
  one_place out;
  for (const auto& one : part.parts) {
    const auto place = one_place_of(one);
    if (!place) return std::nullopt;
    out.set = out.set.with(place->set);
    out.at_end = out.at_end || place->at_end;
  }
  return out;
}

/// True for two letters in a row that Unicode also writes as one: ignoring case, ß is ss.
bool is_ligature(uint32_t first, uint32_t second) {
  const auto lower = [](uint32_t c) { return c < 0x80 ? core::ascii_lower(static_cast<char>(c)) : '\0'; };
  const std::string pair{lower(first), lower(second)};
  for (const char* one : {"ss", "st", "ff", "fi", "fl"})
    if (pair == one) return true;
  return false;
}

/// Returns the characters that `\w` matches within brackets, where Oniguruma leaves out the fractions and raised digits
/// of Latin-1.
character_set word_characters_in_set() {
  const character_set raised({{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}});
  return oniguruma_word_characters().others().with(raised).others();
}

/// Reads a pattern from its beginning to its end.
class pattern_parser {
 public:
  explicit pattern_parser(std::string_view text) : text_(text) {
    for (size_t at = 0; at < text.size(); at += core::utf8_character(text.substr(at)))
      signs_.push_back(core::utf8_code(text.substr(at)));
  }

  core::result<pattern_node> parse() {
    TROUPE_ASSIGN(auto all, alternatives(false, 0));
    if (at_ < signs_.size()) return refused(")");
    return all;
  }

 private:
  [[nodiscard]] bool is(char sign, size_t ahead = 0) const {
    return at_ + ahead < signs_.size() &&
           signs_[at_ + ahead] == static_cast<uint32_t>(static_cast<unsigned char>(sign));
  }
  bool take(char sign) {
    if (!is(sign)) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] tl::unexpected<core::error> refused(std::string_view what) const {
    return core::refused(
        fmt::format("the pattern '{}': {} at character {} is not supported", core::shown(text_), what, at_));
  }

  core::result<pattern_node> alternatives(bool ignores_case, uint32_t depth) {
    if (depth > deepest_groups) return refused("a group in more than 100 others");
    std::vector<pattern_node> parts;
    do {
      TROUPE_ASSIGN(auto part, sequence(ignores_case, depth));
      parts.push_back(std::move(part));
    } while (take('|'));
    return list_node(node_kind::alternatives, std::move(parts));
  }

  core::result<pattern_node> sequence(bool ignores_case, uint32_t depth) {
    std::vector<pattern_node> parts;
    uint32_t before = 0;
    while (at_ < signs_.size() && !is('|') && !is(')')) {
      if (ignores_case && is_ligature(before, signs_[at_])) return refused("two letters that are one ligature");
      before = signs_[at_];
      TROUPE_ASSIGN(auto part, repeated(ignores_case, depth));
      parts.push_back(std::move(part));
    }
    return list_node(node_kind::sequence, std::move(parts));
  }

  core::result<pattern_node> repeated(bool ignores_case, uint32_t depth) {
    TROUPE_ASSIGN(auto part, atom(ignores_case, depth));
    for (uint32_t quantifiers = 0;; ++quantifiers) {
      if (quantifiers > most_quantifiers) return refused("more than 10 quantifiers in a row");
      const char sign = is('*') ? '*' : is('+') ? '+' : is('?') ? '?' : '\0';
      if (sign != '\0') {
        ++at_;
        const uint32_t least = sign == '+' ? 1 : 0;
        const auto most = sign == '?' ? std::optional<uint32_t>(1) : std::nullopt;
        if (take('+')) {
          TROUPE_ASSIGN(auto possessive, without_return(std::move(part), least, most));
          part = std::move(possessive);
          continue;
        }
        const bool is_greedy = !take('?');
        part = repeat_node(std::move(part), least, most, is_greedy);
      } else if (is('{')) {
        TROUPE_ASSIGN(const auto range, repeats());
        // In Oniguruma's syntax a `+` after `{1,3}` is another quantifier, which repeats the part with `{1,3}`.
        const bool is_lazy = is('?');
        if (is_lazy && range.first == range.second) return refused("{n}?");
        if (is_lazy) ++at_;
        part = repeat_node(std::move(part), range.first, range.second, !is_lazy);
      } else {
        return part;
      }
    }
  }

  /// Reads `{2}`, `{2,}`, `{,3}` or `{2,3}`.
  core::result<std::pair<uint32_t, std::optional<uint32_t>>> repeats() {
    const size_t begin = at_;
    ++at_;
    const auto least = number();
    const bool has_comma = take(',');
    const auto most = has_comma ? number() : least;
    if (!take('}') || (!least && !most) || least.value_or(0) > most_repeats || most.value_or(0) > most_repeats ||
        (most && *most < least.value_or(0))) {
      at_ = begin;
      return refused("{");
    }
    return std::pair(least.value_or(0), most);
  }

  std::optional<uint32_t> number() {
    std::optional<uint32_t> out;
    while (at_ < signs_.size() && signs_[at_] >= '0' && signs_[at_] <= '9')
      out = std::min<uint32_t>(out.value_or(0) * 10 + (signs_[at_++] - '0'), most_repeats + 1);
    return out;
  }

  /// Returns a possessive repetition, which never gives up a match for what follows: after it no further character of
  /// the set may come.
  core::result<pattern_node> without_return(pattern_node part, uint32_t least, std::optional<uint32_t> most) {
    if (part.is != node_kind::set) return refused("a possessive quantifier or atomic group of more than one set");
    std::vector<pattern_node> parts;
    auto end = look_node(part.set.others(), true);
    if (most) {  // C?+
      parts.push_back(std::move(part));
      parts.push_back(std::move(end));
      return list_node(node_kind::alternatives, std::move(parts));
    }
    parts.push_back(repeat_node(std::move(part), least, most, true));
    parts.push_back(std::move(end));
    return list_node(node_kind::sequence, std::move(parts));
  }

  core::result<pattern_node> atom(bool ignores_case, uint32_t depth) {
    if (take('(')) return group(ignores_case, depth);
    if (take('[')) {
      TROUPE_ASSIGN(auto set, set_in_brackets(ignores_case, depth));
      return set_pattern(std::move(set));
    }
    if (take('.')) return set_pattern(character_set(uint32_t{'\n'}).others());
    if (take('$')) return look_node(character_set(uint32_t{'\n'}), true);
    if (take('\\')) {
      TROUPE_ASSIGN(auto set, escaped(ignores_case));
      return set_pattern(std::move(set));
    }
    for (const char sign : {'^', '*', '+', '?', '{'})
      if (is(sign)) return refused(std::string(1, sign));
    TROUPE_ASSIGN(auto set, letter(signs_[at_], ignores_case));
    ++at_;
    return set_pattern(std::move(set));
  }

  core::result<pattern_node> group(bool ignores_case, uint32_t depth) {
    enum class head : uint8_t { plain, followed, not_followed, atomic } is_head = head::plain;
    if (take('?')) {
      if (take('='))
        is_head = head::followed;
      else if (take('!'))
        is_head = head::not_followed;
      else if (take('>'))
        is_head = head::atomic;
      else if (is('i') && is(':', 1))
        at_ += 2, ignores_case = true;
      else if (!take(':'))
        return refused("this kind of group");
    }
    TROUPE_ASSIGN(auto inside, alternatives(ignores_case, depth + 1));
    if (!take(')')) return refused("a group without an end");
    if (is_head == head::plain) return inside;
    if (is_head == head::atomic) {
      const bool is_simple = inside.is == node_kind::repeat && inside.is_greedy && inside.least <= 1 &&
                             (!inside.most || (inside.least == 0 && *inside.most == 1));
      if (!is_simple) return refused("an atomic group of more than one repeated set");
      auto part = std::move(inside.parts[0]);
      return without_return(std::move(part), inside.least, inside.most);
    }
    const auto place = one_place_of(inside);
    if (!place) return refused("look-ahead of more than one character");
    if (is_head == head::followed) return look_node(place->set, place->at_end);
    return look_node(place->set.others(), !place->at_end);
  }

  /// Returns the set of a character of the pattern, with both cases if case is ignored.
  core::result<character_set> letter(uint32_t sign, bool ignores_case) const {
    if (!ignores_case) return character_set(sign);
    if (sign >= 0x80) return refused("ignoring case beyond ASCII");
    const char lower = core::ascii_lower(static_cast<char>(sign));
    if (lower < 'a' || lower > 'z') return character_set(sign);
    std::vector<character_set::range> both;
    const auto add = [&](uint32_t c) { both.push_back({c, c}); };
    add(static_cast<uint32_t>(lower));
    add(static_cast<uint32_t>(lower - 'a' + 'A'));
    if (lower == 's') add(0x17F);   // the long s
    if (lower == 'k') add(0x212A);  // the sign of kelvin
    return character_set(std::move(both));
  }

  /// Reads an escape after its backslash.
  core::result<character_set> escaped(bool ignores_case) {
    if (at_ == signs_.size()) return refused("a backslash at the end");
    const uint32_t sign = signs_[at_++];
    switch (sign) {
      case 's':
        return white_space();
      case 'S':
        return white_space().others();
      case 'd':
        return category_named("Nd");
      case 'D':
        return category_named("Nd").others();
      case 'w':
        return oniguruma_word_characters();
      case 'W':
        return oniguruma_word_characters().others();
      case 'p':
      case 'P':
        return property(sign == 'P');
      case 'r':
        return character_set(uint32_t{'\r'});
      case 'n':
        return character_set(uint32_t{'\n'});
      case 't':
        return character_set(uint32_t{'\t'});
      case 'f':
        return character_set(uint32_t{'\f'});
      case 'v':
        return character_set(uint32_t{'\v'});
      case 'x':
        return take('{') ? hexadecimal(8, true, ignores_case) : hexadecimal(2, false, ignores_case);
      case 'u':
        return hexadecimal(4, false, ignores_case);
      default:
        break;
    }
    if (sign >= 0x80 || !core::is_ascii_word(static_cast<char>(sign))) return character_set(sign);
    --at_;
    return refused(fmt::format("\\{}", static_cast<char>(sign)));
  }

  core::result<character_set> hexadecimal(size_t most_digits, bool is_braced, bool ignores_case) {
    uint32_t value = 0;
    size_t digits = 0;
    for (; at_ < signs_.size() && digits < most_digits; ++digits, ++at_) {
      const char sign = signs_[at_] < 0x80 ? core::ascii_lower(static_cast<char>(signs_[at_])) : '\0';
      if (sign >= '0' && sign <= '9')
        value = value * 16 + static_cast<uint32_t>(sign - '0');
      else if (sign >= 'a' && sign <= 'f')
        value = value * 16 + static_cast<uint32_t>(sign - 'a' + 10);
      else
        break;
    }
    const bool is_whole = is_braced ? take('}') && digits > 0 : digits == most_digits;
    if (!is_whole || value >= character_count) return refused("a number of a character");
    // Oniguruma reads `\xC3` as a byte, several of which make a character.
    if (!is_braced && most_digits == 2 && value >= 0x80) return refused("a byte beyond ASCII");
    return letter(value, ignores_case);
  }

  /// Reads `{L}`, `{^Lu}` ... after \p or \P.
  core::result<character_set> property(bool is_other) {
    const size_t begin = at_;
    std::string name;
    if (take('{')) {
      if (take('^')) is_other = !is_other;
      while (at_ < signs_.size() && signs_[at_] < 0x80 && !is('}')) name += static_cast<char>(signs_[at_++]);
    }
    auto set = take('}') ? category_named(name) : character_set();
    if (set.is_empty()) {
      at_ = begin;
      return refused(fmt::format("the property '{}'", name));
    }
    return is_other ? set.others() : set;
  }

  /// Reads a set after its opening bracket. A bracket inside opens a set within it, as in Oniguruma.
  core::result<character_set> set_in_brackets(bool ignores_case, uint32_t depth) {
    if (depth > deepest_groups) return refused("a set in more than 100 others");
    const bool is_other = take('^');
    character_set out;
    for (bool is_first = true;; is_first = false) {
      if (at_ == signs_.size()) return refused("a set without an end");
      if (!is_first && take(']')) return is_other ? out.others() : out;
      if (is('&') && is('&', 1)) return refused("&&");
      if (is('[') && is(':', 1)) return refused("[:");
      if (take('[')) {
        TROUPE_ASSIGN(const auto inner, set_in_brackets(ignores_case, depth + 1));
        out = out.with(inner);
        continue;
      }
      TROUPE_ASSIGN(const auto one, sign_in_set(ignores_case));
      if (!is('-') || is(']', 1) || at_ + 1 == signs_.size()) {
        out = out.with(one);
        continue;
      }
      ++at_;
      if (is('[') || ignores_case) return refused("this range of characters");
      TROUPE_ASSIGN(const auto last, sign_in_set(false));
      if (!one.only() || !last.only() || *one.only() > *last.only()) return refused("this range of characters");
      out = out.with(character_set({{*one.only(), *last.only()}}));
    }
  }

  core::result<character_set> sign_in_set(bool ignores_case) {
    if (is('\\') && (is('w', 1) || is('W', 1))) {
      at_ += 2;
      return signs_[at_ - 1] == 'w' ? word_characters_in_set() : word_characters_in_set().others();
    }
    if (take('\\')) return escaped(ignores_case);
    TROUPE_ASSIGN(auto set, letter(signs_[at_], ignores_case));
    ++at_;
    return set;
  }

  std::string_view text_;
  std::vector<uint32_t> signs_;
  size_t at_ = 0;
};

}  // namespace

core::result<pattern_node> parse_pattern(std::string_view expression) {
  if (!core::is_utf8(expression)) return core::refused("a pattern that is not UTF-8");
  return pattern_parser(expression).parse();
}

pattern_node literal_pattern(std::string_view text) {
  std::vector<pattern_node> parts;
  for (size_t at = 0; at < text.size(); at += core::utf8_character(text.substr(at)))
    parts.push_back(set_pattern(character_set(core::utf8_code(text.substr(at)))));
  return list_node(node_kind::sequence, std::move(parts));
}

pattern_node set_pattern(character_set set) { return {.is = node_kind::set, .set = std::move(set)}; }

}  // namespace troupe::data
