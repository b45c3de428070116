// Parses untrusted JSON so that neither the parse nor a later use of the value can end the process: the library walks
// values recursively (copies, comparisons, dumps), and throws for a number that exceeds a double. Code that only
// receives events (json_sax) builds no values and does not need this file.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "core/error.hpp"

namespace troupe::core {

/// Largest nesting depth of values in a JSON text, for callers that pass no other limit.
inline constexpr size_t max_json_depth = 100;

/// Reason why a JSON text is refused, and where.
struct json_problem {
  error_kind kind = error_kind::bad_input;
  size_t byte = 0;  ///< position of the error in the text in bytes, from 1; 0 if unknown
  std::string why;  ///< description of the error, such as "broken JSON at byte 12 of 40"
};

/// Returns the problem of the first value that is nested deeper than `max_depth`; nullopt if there is none.
inline std::optional<json_problem> too_deep_json(std::string_view text, size_t max_depth) {
  size_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
    } else if (c == '[' || c == '{') {
      if (++depth <= max_depth) continue;
      return json_problem{error_kind::limit, i + 1,
                          fmt::format("its values are nested more than {} deep at byte {}", max_depth, i + 1)};
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return std::nullopt;
}

/// Parses `text` as one JSON value, nested at most `max_depth` deep. `watch` is nlohmann::json's parser callback, and
/// may discard values.
template <class Json = nlohmann::json>
tl::expected<Json, json_problem> parse_json(std::string_view text, size_t max_depth = max_json_depth,
                                            const typename Json::parser_callback_t& watch = nullptr) {
  if (auto deep = too_deep_json(text, max_depth)) return tl::unexpected(std::move(*deep));
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::parse_error& e) {
    const std::string where = text.empty() ? ": the text is empty"
                              : e.byte > text.size()
                                  ? fmt::format(": the text ends after {} bytes, before its value does", text.size())
                                  : fmt::format(" at byte {} of {}", e.byte, text.size());
    return tl::unexpected(json_problem{error_kind::bad_input, e.byte, "broken JSON" + where});
  } catch (const nlohmann::json::out_of_range& e) {  // a number exceeds a double; the text of `e` ends with that number
                                                     // in quotes
    const std::string_view words = e.what();
    const size_t begin = words.find('\'');
    const std::string_view number =
        begin == words.npos ? "" : words.substr(begin + 1, words.rfind('\'') - std::min(words.rfind('\''), begin + 1));
    const size_t at = number.empty() ? text.npos : text.find(number);
    return tl::unexpected(at == text.npos
                              ? json_problem{error_kind::limit, 0, "a number outside the range of a double"}
                              : json_problem{error_kind::limit, at + 1,
                                             fmt::format("a number outside the range of a double at byte {}", at + 1)});
  }
}

}  // namespace troupe::core
