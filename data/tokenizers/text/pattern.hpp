// Reads the regular expressions of tokenizer.json, which are written in Oniguruma's syntax, as a tree. A pattern that
// the tree cannot state exactly is refused; matching is the task of pattern_machine.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/tokenizers/text/characters.hpp"

namespace troupe::data {

/// Largest number of times that a quantifier may repeat a part.
inline constexpr uint32_t most_repeats = 1000;
/// Largest number of quantifiers in a row, each of which repeats the part with the quantifiers before it.
inline constexpr uint32_t most_quantifiers = 10;
/// Deepest nesting of groups and sets.
inline constexpr uint32_t deepest_groups = 100;

/// A part of a pattern.
struct pattern_node {
  enum class kind : uint8_t {
    set,           ///< one character of `set`
    sequence,      ///< all `parts`, one after the other
    alternatives,  ///< the first of `parts` with which the rest of the pattern also matches
    repeat,        ///< parts[0], `least` to `most` times, as often as possible if `is_greedy`
    look,          ///< the empty text, if a character of `set` follows or, with `at_end`, the text ends
  };
  kind is = kind::sequence;
  character_set set{};
  bool at_end = false;
  std::vector<pattern_node> parts{};
  uint32_t least = 0;
  std::optional<uint32_t> most{};  ///< nullopt: any number
  bool is_greedy = true;
};

/// Returns the tree of a pattern. Look-ahead is accepted if it examines one character. Possessive quantifiers and
/// atomic groups are rewritten if they repeat one set of characters: `C++` is `C+(?!C)`. Refused, with its place:
/// syntax that is not known or would need backtracking.
core::result<pattern_node> parse_pattern(std::string_view expression);

/// Returns the tree of a pattern that matches the characters of `text`, which is valid UTF-8.
pattern_node literal_pattern(std::string_view text);
/// Returns the tree of a pattern that matches one character of a set.
pattern_node set_pattern(character_set set);

}  // namespace troupe::data
