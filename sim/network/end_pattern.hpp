// Owns the patterns by which a network's file names the ends of links: `node(n).device(d)` means every device of every
// node, `leaf(n/8)` the switch whose number is n / 8.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::sim {

/// A number in a pattern: variables and numbers, calculated with from left to right.
struct index_expression {
  struct term {
    char sign = '+';       ///< the operation with the value before: one of + - * / %
    std::string variable;  ///< empty: `number`
    uint64_t number = 0;
  };
  std::vector<term> terms;  ///< at least one; the first one is added to 0

  [[nodiscard]] bool is_bare() const { return terms.size() == 1 && !terms.front().variable.empty(); }
  /// Returns the value for values of the variables; nullopt if it, or a value on the way, is below 0 or above 2^31, or
  /// a divisor is 0.
  [[nodiscard]] std::optional<uint64_t> value(const std::function<uint64_t(const std::string&)>& of_variable) const;
};

/// One part of a name: `leaf` or `leaf(n/8)`.
struct pattern_part {
  std::string word;
  std::optional<index_expression> index;
};

/// A name, or a pattern of names, of one or two parts.
struct end_pattern {
  std::string text;
  std::vector<pattern_part> parts;
};

/// Returns the pattern that `text` is; the error says what was wanted.
core::result<end_pattern> parse_end(std::string_view text);

}  // namespace troupe::sim
