// A pattern of parameter names as folders publish them. RE2 alone runs it: no pattern from a file can cost more than
// the name's length.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace re2 {
class RE2;
}

namespace troupe::checkpoint {

class name_pattern {
 public:
  /// Errors (bad_input): no RE2 pattern, with what is wrong with it.
  static core::result<name_pattern> of(const std::string& text);

  /// Whether it holds from the name's first character on, as Python's `re.match` asks; the rest may be anything.
  [[nodiscard]] bool matches(std::string_view name) const;

  /// Whether `to` names no group but those of the pattern: `\1` is the first. Errors: bad_input.
  [[nodiscard]] core::result<void> check_rewrite(const std::string& to) const;

  /// `to` with the groups of a name that the pattern holds for from its first character to its last; nothing of others.
  [[nodiscard]] std::optional<std::string> rewritten(std::string_view name, const std::string& to) const;

 private:
  explicit name_pattern(std::shared_ptr<const re2::RE2> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace troupe::checkpoint
