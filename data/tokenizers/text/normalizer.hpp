// Changes texts by the key `normalizer` of a tokenizer.json, before they are cut into words.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// The ends of a text that a part of the text contains.
struct text_ends {
  bool has_begin = true, has_end = true;
};

/// The steps of a normalizer, applied one after the other.
class normalizer {
 public:
  struct step;

  normalizer();
  normalizer(normalizer&&) noexcept;
  normalizer& operator=(normalizer&&) noexcept;
  ~normalizer();

  /// Reads the steps. Refused: a step, key or pattern that is not known, with its name.
  static core::result<normalizer> make(const nlohmann::json& keys);

  /// Returns `text`, which is valid UTF-8, after all steps.
  [[nodiscard]] core::result<std::string> apply(std::string_view text, text_ends ends) const;

  /// True if no step changes any text.
  [[nodiscard]] bool is_nothing() const;
  /// True if a step treats the beginning of a text otherwise than the rest of the text.
  [[nodiscard]] bool acts_at_begin() const;
  /// True if a step removes characters. Precompiled does not count, although it replaces some characters by nothing,
  /// because the package `tokenizers` assigns their place to the next character.
  [[nodiscard]] bool removes() const;
  /// True if the text before byte `at` (above 0, below the size) of `text` and the text from there on are certain to be
  /// normalized separately, whatever the rest of the text is.
  [[nodiscard]] bool divides(std::string_view text, size_t at) const;

 private:
  core::result<void> add(const nlohmann::json& keys, uint32_t depth);

  std::vector<step> steps_;
};

}  // namespace troupe::data
