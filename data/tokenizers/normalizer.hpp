// Changes texts as the key `normalizer` of a tokenizer.json says, before they are cut into words.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Which ends of a text a part of it has.
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
  /// True if a step does something else at the beginning of a text than within it.
  [[nodiscard]] bool acts_at_begin() const;
  /// True if a step removes characters. Precompiled, which replaces some by nothing, is not counted: the package gives
  /// the next character their place.
  [[nodiscard]] bool removes() const;
  /// True if text before byte `at` (above 0, below the size) of `text` and text from it on are normalized separately,
  /// whatever else the text has. False where this is not certain.
  [[nodiscard]] bool divides(std::string_view text, size_t at) const;

 private:
  core::result<void> add(const nlohmann::json& keys, uint32_t depth);

  std::vector<step> steps_;
};

}  // namespace troupe::data
