// A pattern of parameter names, as checkpoint folders publish such patterns. RE2 executes the pattern, so the time is
// linear in the length of the name, whatever the pattern is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace re2 {
class RE2;
}

namespace troupe::formats {

class name_pattern {
 public:
  /// Compiles `text`. Refused (bad_input): a text that is not an RE2 pattern, with RE2's reason.
  static core::result<name_pattern> of(const std::string& text);

  /// True if the pattern matches from the name's first character on, as Python's `re.match` does; the rest of the name
  /// may be anything.
  [[nodiscard]] bool matches(std::string_view name) const;

  /// Checks that every reference in `to`, such as `\1`, refers to a group of the pattern. Errors: bad_input.
  [[nodiscard]] core::result<void> check_rewrite(const std::string& to) const;

  /// Returns `to` with the groups filled in, if the pattern matches the whole name; nothing for any other name.
  [[nodiscard]] std::optional<std::string> rewritten(std::string_view name, const std::string& to) const;

 private:
  explicit name_pattern(std::shared_ptr<const re2::RE2> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace troupe::formats
