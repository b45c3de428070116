#include "data/tokenizers/text/characters.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "core/utf8.hpp"

namespace troupe::data {
namespace {

/// Names of the general categories, in the order of utf8proc's numbers.
constexpr std::array<std::string_view, 30> category_names{"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                                          "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                                          "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

using ranges_by_category = std::array<std::vector<character_set::range>, category_names.size()>;

/// Returns the ranges of characters of every general category, in order.
const ranges_by_category& categories() {
  static const auto all = [] {
    ranges_by_category out;
    for (uint32_t c = 0; c < character_count; ++c) {
      auto& ranges = out[static_cast<size_t>(utf8proc_category(static_cast<utf8proc_int32_t>(c)))];
      if (!ranges.empty() && ranges.back().last + 1 == c)
        ranges.back().last = c;
      else
        ranges.push_back({c, c});
    }
    return out;
  }();
  return all;
}

character_set of_categories(std::initializer_list<std::string_view> names) {
  character_set out;
  for (const auto name : names) out = out.with(category_named(name));
  return out;
}

/// Letters that Unicode calls alphabetic although their category is that of symbols: letters in circles and squares.
character_set circled_letters() {
  return character_set({{0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}});
}

utf8proc_option_t options_of(normal_form form) {
  constexpr int stable = UTF8PROC_STABLE;
  switch (form) {
    case normal_form::composed:
      return static_cast<utf8proc_option_t>(stable | UTF8PROC_COMPOSE);
    case normal_form::decomposed:
      return static_cast<utf8proc_option_t>(stable | UTF8PROC_DECOMPOSE);
    case normal_form::compatible_composed:
      return static_cast<utf8proc_option_t>(stable | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case normal_form::compatible_decomposed:
      break;
  }
  return static_cast<utf8proc_option_t>(stable | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
}

}  // namespace

character_set::character_set(std::vector<range> ranges) {
  std::ranges::sort(ranges, {}, &range::first);
  for (const auto& r : ranges) {
    if (!ranges_.empty() && r.first <= ranges_.back().last + 1)
      ranges_.back().last = std::max(ranges_.back().last, r.last);
    else
      ranges_.push_back(r);
  }
}

bool character_set::has(uint32_t character) const {
  const auto after = std::ranges::upper_bound(ranges_, character, {}, &range::first);
  return after != ranges_.begin() && character <= std::prev(after)->last;
}

std::optional<uint32_t> character_set::only() const {
  if (ranges_.size() != 1 || ranges_[0].first != ranges_[0].last) return std::nullopt;
  return ranges_[0].first;
}

character_set character_set::others() const {
  character_set out;
  uint32_t next = 0;
  for (const auto& r : ranges_) {
    if (r.first > next) out.ranges_.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next < character_count) out.ranges_.push_back({next, character_count - 1});
  return out;
}

character_set character_set::with(const character_set& other) const {
  auto all = ranges_;
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  return character_set(std::move(all));
}

character_set category_named(std::string_view name) {
  std::vector<character_set::range> ranges;
  if (name.empty() || name.size() > 2) return {};
  for (size_t i = 0; i < category_names.size(); ++i)
    if (category_names[i].starts_with(name))
      ranges.insert(ranges.end(), categories()[i].begin(), categories()[i].end());
  return character_set(std::move(ranges));
}

const character_set& white_space() {
  static const character_set all({{0x9, 0xD},
                                  {0x20, 0x20},
                                  {0x85, 0x85},
                                  {0xA0, 0xA0},
                                  {0x1680, 0x1680},
                                  {0x2000, 0x200A},
                                  {0x2028, 0x2029},
                                  {0x202F, 0x202F},
                                  {0x205F, 0x205F},
                                  {0x3000, 0x3000}});
  return all;
}

const character_set& word_characters() {
  static const auto all =
      of_categories({"L", "M", "Nd", "Nl", "Pc"}).with(circled_letters()).with(character_set({{0x200C, 0x200D}}));
  return all;
}

const character_set& oniguruma_word_characters() {
  static const auto all = of_categories({"L", "M", "Nd", "Nl", "Pc"})
                              .with(circled_letters())
                              .with(character_set({{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}}));
  return all;
}

const character_set& punctuation() {
  static const auto all = category_named("P").with(character_set({{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}));
  return all;
}

std::string in_normal_form(std::string_view text, normal_form form) {
  utf8proc_uint8_t* made = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &made, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owned(made, &std::free);
  if (size < 0) return std::string(text);  // the text is not UTF-8, which callers exclude
  return {reinterpret_cast<const char*>(made), static_cast<size_t>(size)};
}

bool stands_apart_in(std::string_view text, normal_form form) {
  constexpr utf8proc_int32_t first_vowel = 0x1160,
                             // the range of Hangul's vowels and finals, which follow other parts of a syllable
      last_final = 0x11FF;
  std::array<utf8proc_int32_t, 32> parts{};
  int unused = 0;
  const bool is_compatible = form == normal_form::compatible_composed || form == normal_form::compatible_decomposed;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (is_compatible ? static_cast<int>(UTF8PROC_COMPAT) : 0));
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(core::utf8_code(text)), parts.data(),
                                         static_cast<utf8proc_ssize_t>(parts.size()), options, &unused);
  if (n < 1) return false;
  const auto name = category_names[static_cast<size_t>(utf8proc_category(parts[0]))];
  return !name.starts_with('M') && (parts[0] < first_vowel || parts[0] > last_final);
}

void append_lower_case(uint32_t character, std::string& out) {
  constexpr uint32_t dotted_capital_i = 0x130;
  if (character == dotted_capital_i) {
    out += "i\xCC\x87";  // the only character whose lower case is two
    return;
  }
  core::append_utf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))), out);
}

size_t cluster_bytes(std::string_view text) {
  size_t at = core::utf8_character(text);
  utf8proc_int32_t state = 0;
  auto before = static_cast<utf8proc_int32_t>(core::utf8_code(text));
  while (at < text.size()) {
    const auto rest = text.substr(at);
    const auto here = static_cast<utf8proc_int32_t>(core::utf8_code(rest));
    if (utf8proc_grapheme_break_stateful(before, here, &state)) break;
    before = here;
    at += core::utf8_character(rest);
  }
  return at;
}

}  // namespace troupe::data
