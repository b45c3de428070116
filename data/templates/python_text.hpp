// Texts as Python's `str` treats them: characters instead of bytes, its white space and lines, its letters' cases, and
// how it writes and reads numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::data::templates {

/// Returns the number of characters of a text, which is valid UTF-8, as all texts here are.
size_t code_points(std::string_view text);
/// Returns the byte at which character `n` begins; the length of the text if it has at most `n` characters.
size_t byte_of(std::string_view text, size_t n);

/// True for a character that Python's str.isspace() counts as white space.
bool is_python_space(uint32_t code);
/// True for a character at which Python's str.splitlines() ends a line.
bool is_python_line_end(uint32_t code);

/// Returns the text without white space, or without the characters of `chars`, at its beginning and end.
std::string_view python_strip(std::string_view text, std::optional<std::string_view> chars = std::nullopt,
                              bool at_begin = true, bool at_end = true);

/// Returns the text in lower case. Fails for the capital sigma, whose lower case depends on its place in a word.
core::result<std::string> python_lower(std::string_view text);
/// Returns the text in upper case. Fails for characters whose upper case is more than one character, such as ß.
core::result<std::string> python_upper(std::string_view text);
/// Returns the text with its first character in title case and all others in lower case.
core::result<std::string> python_capitalize(std::string_view text);
/// Returns the lines of a text.
std::vector<std::string> python_lines(std::string_view text, bool keeps_ends);
/// Returns the text with up to `most` places of `old` (all if negative) replaced.
std::string python_replace(std::string_view text, std::string_view old, std::string_view with, int64_t most);
/// Returns the parts of a text between white space. At most `most` cuts are made (any number if negative), the last
/// ones if `from_end`.
std::vector<std::string> python_split(std::string_view text, int64_t most, bool from_end);
/// Returns the parts of a text between `separator`, which is not empty, in the same way.
std::vector<std::string> python_split(std::string_view text, std::string_view separator, int64_t most, bool from_end);

/// Returns a number as Python's repr() writes it.
std::string python_float(double x);
/// Returns a text in quotes, as Python's repr() writes it.
std::string python_quoted(std::string_view text);
/// Returns the number that Python's int() reads from a text; nullopt if it reads none. Fails for a number beyond 64
/// bits, and for digits beyond ASCII.
core::result<std::optional<int64_t>> python_int(std::string_view text);
/// Returns the number that Python's float() reads from a text; nullopt if it reads none. Fails for a number that a
/// double cannot hold, and for digits beyond ASCII.
core::result<std::optional<double>> python_float_of(std::string_view text);

}  // namespace troupe::data::templates
