// JSON that came from outside, read so that neither it nor what is done with it later can end the process: the library
// walks values recursively (copies, comparisons, dumps), and throws where a number is beyond a double.
// Sites that only listen to events (json_sax) build no values and need none of this.
#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "core/error.hpp"

namespace troupe::core {

/// Values inside values, where a reader names no depth of its own.
inline constexpr size_t max_json_depth = 100;

/// Why a text is not read.
struct json_problem {
  error_kind kind = error_kind::bad_input;
  size_t byte = 0;  ///< where in the text, from 1; 0 where unknown
  std::string why;  ///< "broken JSON at byte 12 of 40"
};

/// The first value that is nested too deep.
inline std::optional<json_problem> too_deep_json(std::string_view text, size_t max_depth) {
  size_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
    } else if (c == '[' || c == '{') {
      if (++depth <= max_depth) continue;
      return json_problem{
          error_kind::limit, i + 1,
          "its values lie more than " + std::to_string(max_depth) + " deep at byte " + std::to_string(i + 1)};
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return std::nullopt;
}

/// The value in `text`. `watch` is the library's own, and may drop what it does not want.
template <class Json = nlohmann::json>
tl::expected<Json, json_problem> parse_json(std::string_view text, size_t max_depth = max_json_depth,
                                            const typename Json::parser_callback_t& watch = nullptr) {
  if (auto deep = too_deep_json(text, max_depth)) return tl::unexpected(std::move(*deep));
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::parse_error& e) {
    return tl::unexpected(
        json_problem{error_kind::bad_input, e.byte,
                     "broken JSON at byte " + std::to_string(e.byte) + " of " + std::to_string(text.size())});
  } catch (const nlohmann::json::out_of_range& e) {  // its words end with the number in quotes
    const std::string_view words = e.what();
    const size_t begin = words.find('\'');
    const std::string_view number =
        begin == words.npos ? "" : words.substr(begin + 1, words.rfind('\'') - std::min(words.rfind('\''), begin + 1));
    const size_t at = number.empty() ? text.npos : text.find(number);
    return tl::unexpected(at == text.npos
                              ? json_problem{error_kind::limit, 0, "a number that no double holds"}
                              : json_problem{error_kind::limit, at + 1,
                                             "a number that no double holds at byte " + std::to_string(at + 1)});
  }
}

}  // namespace troupe::core
