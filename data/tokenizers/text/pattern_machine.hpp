// Finds the matches of a pattern without backtracking: the pattern becomes an automaton over classes of characters,
// whose states are made when a text first needs them. Of several matches that begin at one character, returns the one
// that the order of alternatives and quantifiers prefers, as in Perl. Also reports when a match depends on text that is
// not known yet, which PCRE2 can report only with backtracking, and RE2, which has no look-ahead, not at all.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/tokenizers/text/pattern.hpp"

namespace troupe::data {

/// Largest size of an automaton: parts of the pattern, classes of characters, and states.
inline constexpr uint32_t most_pattern_parts = 5'000, most_character_classes = 250, most_pattern_states = 4'000;
/// Average number of times that a search may examine each byte of the text in attempts that fail; a search that exceeds
/// it returns an error.
inline constexpr uint64_t most_attempts = 256;

/// Result of a search.
struct pattern_find {
  enum class kind : uint8_t {
    none,   ///< no match in the text
    found,  ///< the match has the bytes from `begin` to `end`, whatever text follows
    open,   ///< the text that follows decides whether a match begins at byte `begin`, or where it ends
  };
  kind is = kind::none;
  size_t begin = 0, end = 0;
};

class pattern_machine {
 public:
  /// Builds the automaton. Refused: a pattern that matches the empty text, and one beyond the limits
  /// most_pattern_parts, most_character_classes and most_pattern_states.
  static core::result<pattern_machine> make(const pattern_node& pattern);

  /// Returns the first match in `text`, which is valid UTF-8, that begins at byte `from` or later. `is_open`: more text
  /// may follow. Errors (limit): too many states or attempts. One thread at a time may call this function.
  core::result<pattern_find> find(std::string_view text, size_t from, bool is_open) const;

  /// True if every match is one character.
  [[nodiscard]] bool matches_one_character() const { return is_one_character_; }
  /// True if some match may contain this character.
  [[nodiscard]] bool may_have(uint32_t character) const;

 private:
  enum class kind : uint8_t { set, split, look, match };
  struct node {
    kind is = kind::match;
    bool at_end = false;
    uint32_t set = 0;              ///< index in sets_
    uint32_t next = 0, other = 0;  ///< nodes that follow; `other` only if `next` leads to no match
  };
  /// A transition is twice the number of the next state, plus 1 if a match ends before the character.
  static constexpr uint32_t unknown = ~uint32_t{0}, dead = (unknown >> 1) - 1;

  pattern_machine() = default;
  core::result<uint32_t> build(const pattern_node& part, uint32_t next);
  uint32_t add(node one);
  core::result<void> make_classes();
  [[nodiscard]] bool may_be_empty() const;
  void follow(uint32_t from, std::vector<bool>& seen, std::vector<uint32_t>& out) const;
  core::result<uint32_t> state_of(std::vector<uint32_t> nodes) const;
  core::result<uint32_t> step(uint32_t state, uint32_t symbol) const;
  [[nodiscard]] uint32_t class_of(uint32_t character) const {
    return character < ascii_.size() ? ascii_[character] : pages_[page_of_[character >> 8] * 256U + (character & 255U)];
  }
  [[nodiscard]] bool is_in(uint32_t set, uint32_t symbol) const { return members_[set * classes_ + symbol] != 0; }

  std::vector<node> nodes_;
  std::vector<character_set> sets_;
  uint32_t first_ = 0;    ///< node at which matches begin
  uint32_t classes_ = 0;  ///< number of classes of characters; the symbol with this number is the end of the text
  bool is_one_character_ = false;
  std::array<uint8_t, 128> ascii_{};  ///< [character]: its class
  std::vector<uint8_t> pages_;        ///< [page * 256 + low byte]: class
  std::vector<uint16_t> page_of_;     ///< [character >> 8]: page
  std::vector<uint8_t> members_;      ///< [set * classes_ + class]: 1 if the set has the class
  uint32_t start_ = 0;
  mutable std::vector<std::vector<uint32_t>> states_;             ///< [state]: nodes, the preferred one first
  mutable std::map<std::vector<uint32_t>, uint32_t> state_with_;  ///< [nodes]: state
  mutable std::vector<uint32_t> transitions_;                     ///< [state * (classes_ + 1) + symbol]
  mutable std::vector<uint8_t> ends_here_;                        ///< [state]: 1 if a match ends, whatever follows
};

}  // namespace troupe::data
