// Rewrites characters by the table of a SentencePiece model, which tokenizer.json has as `precompiled_charsmap`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// A table of rules, each of which replaces some characters by others.
class charsmap {
 public:
  /// Reads the table from text in base 64. Refused: text that is not base 64, and tables that fault_in_rules() refuses.
  static core::result<charsmap> make(std::string_view base64);

  /// Returns `text`, which is valid UTF-8, rewritten as the package `tokenizers` does it. If a rule matches the
  /// beginning of a cluster of at most 5 bytes, the rule for the shortest beginning replaces the whole cluster;
  /// otherwise each of its characters is replaced in this way; one without a rule stays.
  [[nodiscard]] std::string rewritten(std::string_view text) const;

 private:
  /// Appends the replacement of `part`; returns false and appends nothing if no rule matches the beginning of `part`.
  bool append_rewritten(std::string_view part, std::string& out) const;

  std::vector<uint32_t> units_;  ///< trie of the rules, as Darts stores it (sentencepiece_rules.cpp)
  std::string texts_;            ///< replacements that the rules write, each ended by a 0
};

}  // namespace troupe::data
