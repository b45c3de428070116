// Cuts text into words by the pattern of a byte-level tokenizer; byte-pair encoding never merges tokens of different
// words. The only code that uses PCRE2.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "core/error.hpp"
#include "data/tokenizers/text/text_rules.hpp"

namespace troupe::data {

/// Limits of PCRE2's work on one word. The known patterns backtrack over the white space before a word at most, so only
/// a broken PCRE2 reaches these limits.
inline constexpr uint32_t word_match_limit = 100'000'000;
inline constexpr uint32_t word_depth_limit = 10'000;
inline constexpr uint32_t word_heap_limit_kib = 64 * 1024;

/// Cuts text into words by a compiled pattern. An object has scratch memory, so one thread may use it at a time.
class word_cutter {
 public:
  static core::result<word_cutter> make(word_pattern pattern = word_pattern::gpt2);
  word_cutter(word_cutter&&) noexcept;
  word_cutter& operator=(word_cutter&&) noexcept;
  ~word_cutter();

  /// Returns the length of the word that begins at `at` < text.size(); every byte belongs to exactly one word. `text`
  /// must be valid UTF-8 and `at` the start of a character. Words of GPT-2's pattern are contractions ('s, 'll,
  /// ...), letters, digits or other signs with at most one space before them, and runs of white space. If a word
  /// follows such a run, the run ends before its last character: a space belongs to that word, any other character is a
  /// word of its own.
  core::result<size_t> next(std::string_view text, size_t at);

  /// Returns the length of the word that begins at `at`, as next() does, if more text may follow `text`. Returns
  /// nullopt if the word depends on the further text, because the pattern examines the end of `text` before it has a
  /// match.
  core::result<std::optional<size_t>> next_whatever_follows(std::string_view text, size_t at);

  /// True if PCRE2 compiled the pattern to machine code.
  [[nodiscard]] bool compiled_to_machine_code() const;

 private:
  struct parts;
  /// Returns PCRE2's result of a match at `at` with these options, negative if there is no match.
  [[nodiscard]] int match(std::string_view text, size_t at, uint32_t options);
  explicit word_cutter(std::unique_ptr<parts> p);
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::data
