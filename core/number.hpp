// Reads numbers from text. Owns the rule that a number has one strict form, whatever the locale: digits, and for
// signed and floating types also a leading minus; no blanks and no plus. Text with a number that the type cannot hold
// is not a number.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe::core {

/// Removes the number at the front of `text` and returns it. Returns nullopt, and leaves `text` unchanged, if the text
/// begins with no number or with one that T cannot hold. `base` is for integers.
template <class T>
std::optional<T> take_number(std::string_view& text, int base = 10) {
  T out{};
  const char* const end = text.data() + text.size();
  std::from_chars_result read{};
  if constexpr (std::integral<T>)
    read = std::from_chars(text.data(), end, out, base);
  else
    read = std::from_chars(text.data(), end, out);
  if (read.ec != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
  return out;
}

/// Returns the number that `text` consists of; nullopt for any other text, and for a number that T cannot hold.
template <class T>
std::optional<T> number_of(std::string_view text, int base = 10) {
  const auto out = take_number<T>(text, base);
  return text.empty() ? out : std::nullopt;
}

}  // namespace troupe::core
