// Unicode's characters: sets of them by category, letters' cases, normal forms and clusters. The Unicode version is
// that of the library utf8proc, which only characters.cpp uses, except for what the package `tokenizers` takes from
// older tables: all_marks() and, unless a caller wants others, normal forms are those of Unicode 9; nonspacing_marks(),
// unseen_characters() and punctuation() are those of Unicode 8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::data {

/// Number of characters that Unicode can have.
inline constexpr uint32_t character_count = 0x110000;

/// A set of characters, as ranges in order that neither overlap nor touch.
class character_set {
 public:
  struct range {
    uint32_t first = 0, last = 0;  ///< both belong to the range
    bool operator==(const range&) const = default;
  };

  character_set() = default;
  /// Makes the set of the characters of all ranges, which may be in any order and overlap.
  explicit character_set(std::vector<range> ranges);
  explicit character_set(uint32_t one) : ranges_{{one, one}} {}

  [[nodiscard]] bool has(uint32_t character) const;
  [[nodiscard]] bool is_empty() const { return ranges_.empty(); }
  [[nodiscard]] const std::vector<range>& ranges() const { return ranges_; }
  /// Returns the only character of the set; nullopt if the set has another number of characters.
  [[nodiscard]] std::optional<uint32_t> only() const;
  /// Returns the set of all characters that this set lacks.
  [[nodiscard]] character_set others() const;
  /// Returns the set of the characters of both sets.
  [[nodiscard]] character_set with(const character_set& other) const;
  /// Returns the set of this set's characters that `other` lacks.
  [[nodiscard]] character_set without(const character_set& other) const;

 private:
  std::vector<range> ranges_;
};

/// Returns the characters of a general category, `Lu`, or of all categories with this letter, `L`; empty if there is
/// none of this name.
character_set category_named(std::string_view name);
/// Unicode's White_Space.
const character_set& white_space();
/// The characters that `\w` matches in Rust's `regex`: letters, marks, decimal and letter numbers, connectors and
/// joiners.
const character_set& word_characters();
/// The characters that `\w` matches in Oniguruma: those of word_characters() without joiners and with the numbers of
/// Latin-1.
const character_set& oniguruma_word_characters();
/// ASCII's signs, and the characters of the category P (punctuation) in Unicode 8.
const character_set& punctuation();
/// Marks of Unicode 9.
const character_set& all_marks();
/// Marks without a width, the category Mn, of Unicode 8.
const character_set& nonspacing_marks();
/// Control, format and private characters of Unicode 8.
const character_set& unseen_characters();

/// The normal forms NFC, NFD, NFKC and NFKD.
enum class normal_form : uint8_t { composed, decomposed, compatible_composed, compatible_decomposed };

/// The tables that a normal form is made by.
enum class form_tables : uint8_t {
  unicode_9,  ///< those of the package `tokenizers`: later marks are letters, and later letters have no parts
  current,    ///< those of utf8proc's own version, as tokenizers written in Python have their interpreter's
};

/// Returns `text`, which is valid UTF-8, in a normal form.
std::string in_normal_form(std::string_view text, normal_form form, form_tables tables = form_tables::unicode_9);
/// True if the normal form never composes the character at the start of `text` with a character before it, and never
/// moves it before one, whatever the text before it is.
bool stands_apart_in(std::string_view text, normal_form form);
/// Appends the lower case of a character, without regard to the characters around it.
void append_lower_case(uint32_t character, std::string& out);
/// Appends the upper case of a character, as far as that is one character.
void append_upper_case(uint32_t character, std::string& out);
/// Appends the title case of a character, as far as that is one character.
void append_title_case(uint32_t character, std::string& out);
/// Returns the length in bytes of the first extended grapheme cluster of `text`, which is valid UTF-8 and not empty.
size_t cluster_bytes(std::string_view text);

}  // namespace troupe::data
