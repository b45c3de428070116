// Cuts texts into words by the key `pre_tokenizer` of a tokenizer.json: a sequence of steps, each of which cuts the
// words of the previous step. Models encode each word separately.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/tokenizers/text/pattern_machine.hpp"

namespace troupe::data {

/// A word, or a text that is not cut yet.
struct cut_word {
  std::string_view text;
  size_t place = 0;  ///< byte of the text to which the first byte of the word corresponds
  /// [byte of the word]: byte of the text to which it corresponds; null: `place` plus the index
  const size_t* places = nullptr;
  /// Number of the step that cut before the word; nullopt: the text begins with the word.
  std::optional<uint32_t> cut_by{};
  /// true: a match of an earlier step than `cut_by` extends across the beginning of the word
  bool begins_in_match = false;
  bool has_match = false;  ///< true: the word contains a match of several characters
  bool is_open = false;    ///< true: text that is not known yet may extend the word or cut it otherwise

  [[nodiscard]] size_t place_of(size_t byte) const { return places == nullptr ? place + byte : places[byte]; }
};

/// Position within its document of a text that is cut.
struct cut_text {
  bool begins_document = true;  ///< true: the text is the beginning of a document
  /// false: an earlier part of the text, which ended at a place that may_divide_after() allows, was cut before
  bool is_begin = true;
  bool is_open = false;  ///< true: more of the text may follow
};

class text_cutter {
 public:
  /// Reads the steps. Refused: a step, key or pattern that is not known, with its name, and ByteLevel before another
  /// step. `normalizer_moves` is true if the normalizer removes or adds characters: prepend_scheme first is then
  /// supported in the first step alone.
  static core::result<text_cutter> make(const nlohmann::json& keys, bool normalizer_moves);

  /// Appends the words of `text`, which is valid UTF-8, in their order; only the last may be open. They are valid until
  /// forget(), and as long as `text` is.
  core::result<void> cut(std::string_view text, const cut_text& about, std::vector<cut_word>& out);
  void forget();

  /// True if models read the bytes of words (ByteLevel), not their characters.
  [[nodiscard]] bool is_byte_level() const { return is_byte_level_; }
  /// True if a step puts a space, or the sign that replaces spaces, before a text.
  [[nodiscard]] bool adds_space() const { return adder_.has_value(); }
  /// True if a step puts the sign that replaces spaces only before the first word of a document.
  [[nodiscard]] bool adds_to_document() const;
  /// True if a text may be divided before a word that step `step` has cut: the next part is then cut as it is in the
  /// whole text.
  [[nodiscard]] bool may_divide_after(uint32_t step) const { return !adder_ || *adder_ == 0 || step < *adder_; }
  /// True if an open word may be divided anywhere, because no step examines more than one character at a time.
  [[nodiscard]] bool may_divide_words() const;

 private:
  enum class behaviour : uint8_t { removed, isolated, joined_to_previous, joined_to_next, contiguous };
  struct step {
    std::optional<pattern_machine> pattern{};  ///< nullopt: a step that changes words
    /// true: the text between matches is treated as the matches, and the matches as the text between them
    bool is_inverted = false;
    behaviour matches = behaviour::isolated;
    std::string space{};            ///< of a step that changes words: replacement of each space, also put before words
    bool adds_to_document = false;  ///< true: `space` is put before the first word of a document only
    bool adds_to_words = false;     ///< true: `space` is put before every word
  };

  core::result<void> add(const nlohmann::json& keys, uint32_t depth, bool normalizer_moves);
  core::result<void> add_metaspace(const nlohmann::json& keys, bool normalizer_moves);
  core::result<void> add_split(const nlohmann::json& keys);
  core::result<void> add_set(const character_set& set, behaviour matches);
  core::result<void> add_pattern(const pattern_node& pattern, behaviour matches, bool is_inverted);
  static core::result<behaviour> behaviour_named(const std::string& name);
  core::result<void> cut_by(uint32_t number, const cut_word& word, std::vector<cut_word>& out);
  cut_word changed(const step& by, const cut_word& word, bool adds);

  std::vector<step> steps_;
  bool is_byte_level_ = false;
  std::optional<uint32_t> adder_;  ///< number of the first step that puts `space` before words
  bool has_two_adders_ = false;
  std::deque<std::string> texts_;  ///< texts of words that a step has changed
  std::deque<std::vector<size_t>> places_;
  std::vector<cut_word> now_, next_;
};

}  // namespace troupe::data
