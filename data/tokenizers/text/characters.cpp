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

/// Characters that Unicode 8 lacks: those of the categories P, Mn, Cc, Cf and Co up to Unicode 15.1, and others between
/// them.
const character_set& later_than_unicode_8() {
  static const character_set all({
      {0x61D, 0x61D},     {0x7FD, 0x7FD},     {0x890, 0x8E2},     {0x9FD, 0x9FE},     {0xA76, 0xA76},
      {0xAFA, 0xAFF},     {0xB55, 0xB55},     {0xC04, 0xC3C},     {0xC77, 0xC77},     {0xC84, 0xC84},
      {0xD00, 0xD00},     {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},
      {0x180F, 0x180F},   {0x1ABF, 0x1ACE},   {0x1B7D, 0x1B7E},   {0x1DF6, 0x1DFB},   {0x2E43, 0x2E5D},
      {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},   {0x10D24, 0x10F89}, {0x11070, 0x11074},
      {0x110C2, 0x110CD}, {0x111CF, 0x111CF}, {0x1123E, 0x11241}, {0x1133B, 0x1133B}, {0x11438, 0x1145E},
      {0x11660, 0x1166C}, {0x116B9, 0x116B9}, {0x1182F, 0x11FFF}, {0x12FF1, 0x13455}, {0x16E97, 0x16F4F},
      {0x16FE2, 0x16FE4}, {0x1CF00, 0x1CF46}, {0x1E000, 0x1E4EF}, {0x1E944, 0x1E95F},
  });
  return all;
}

/// Characters that Unicode 9 lacks: marks and those that have parts up to Unicode 15.1, and others between them, which
/// are never composed.
const character_set& later_than_unicode_9() {
  static const character_set all({
      {0x7FD, 0x7FD},     {0x898, 0x8D3},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},     {0xB55, 0xB55},
      {0xC04, 0xC3C},     {0xCF3, 0xD00},     {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},
      {0xECE, 0xECE},     {0x1715, 0x1715},   {0x180F, 0x180F},   {0x1ABF, 0x1ACE},   {0x1CF7, 0x1CF7},
      {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},   {0xA8FF, 0xA8FF},
      {0xAB69, 0xAB69},   {0x10781, 0x107BA}, {0x10D24, 0x10F85}, {0x11070, 0x11074}, {0x110C2, 0x110C2},
      {0x11145, 0x11146}, {0x111CE, 0x111CF}, {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
      {0x1182C, 0x11A99}, {0x11D31, 0x13455}, {0x16F4F, 0x16F4F}, {0x16F7F, 0x16F87}, {0x16FE4, 0x16FF1},
      {0x1CF00, 0x1CF46}, {0x1E030, 0x1E4EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
  });
  return all;
}

/// Returns the normal form of `text` in the Unicode version of utf8proc.
std::string in_present_form(std::string_view text, utf8proc_option_t options) {
  if (text.empty()) return {};
  utf8proc_uint8_t* made = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &made, options);
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owned(made, &std::free);
  if (size < 0) return std::string(text);  // the text is not UTF-8, which callers exclude
  return {reinterpret_cast<const char*>(made), static_cast<size_t>(size)};
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

character_set character_set::without(const character_set& other) const { return others().with(other).others(); }

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

// The characters that each set names one by one are in another category now than in the version that the set has.

const character_set& punctuation() {
  static const auto all = category_named("P")
                              .without(later_than_unicode_8())
                              .with(character_set({{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}))
                              .with(character_set({{0x166D, 0x166D}, {0x111C9, 0x111C9}}));
  return all;
}

const character_set& all_marks() {
  static const auto all = category_named("M")
                              .without(later_than_unicode_9())
                              .without(character_set(uint32_t{0x111C9}))
                              .with(character_set({{0x1CF2, 0x1CF3}}));
  return all;
}

const character_set& nonspacing_marks() {
  static const auto all = category_named("Mn")
                              .without(later_than_unicode_8())
                              .without(character_set({{0x1885, 0x1886}, {0xA9BD, 0xA9BD}, {0x111C9, 0x111C9}}))
                              .with(character_set(uint32_t{0x1734}));
  return all;
}

const character_set& unseen_characters() {
  static const auto all = of_categories({"Cc", "Cf", "Co"}).without(later_than_unicode_8());
  return all;
}

std::string in_normal_form(std::string_view text, normal_form form, form_tables tables) {
  const auto options = options_of(form);
  if (tables == form_tables::current) return in_present_form(text, options);
  std::string out;
  size_t done = 0;  // a later character stays as it is, and divides the text into parts that have normal forms
  for (size_t at = 0; at < text.size();) {
    const auto bytes = std::max<size_t>(1, core::utf8_character(text.substr(at)));
    if (bytes > 1 && later_than_unicode_9().has(core::utf8_code(text.substr(at)))) {
      out += in_present_form(text.substr(done, at - done), options);
      out += text.substr(at, bytes);
      done = at + bytes;
    }
    at += bytes;
  }
  return out += in_present_form(text.substr(done), options);
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

void append_upper_case(uint32_t character, std::string& out) {
  core::append_utf8(static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(character))), out);
}

void append_title_case(uint32_t character, std::string& out) {
  core::append_utf8(static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(character))), out);
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
