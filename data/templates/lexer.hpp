// Cuts a template into tokens, with Jinja's rules for white space around its marks (trim_blocks and lstrip_blocks on).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/templates/syntax.hpp"

namespace troupe::data::templates {

/// A part of a template.
struct token {
  enum class kind : uint8_t {
    data,            ///< text outside of marks
    block_begin,     ///< {%
    block_end,       ///< %}
    variable_begin,  ///< {{
    variable_end,    ///< }}
    name,
    string,  ///< `word` is the text without quotes and escapes
    number,  ///< `constant`
    symbol,  ///< an operator or bracket
    end,     ///< end of the template
  };
  kind is = kind::end;
  std::string word{};
  value constant{};
  position at{};
};

/// Returns the text of an error at a place of a template.
std::string located(std::string_view name, position at, std::string_view what);

/// Returns the tokens of a template; the last one is the end. Fails, with the place, for a mark or bracket that is not
/// closed and for a character that begins no token.
core::result<std::vector<token>> tokens_of(std::string_view name, std::string_view source);

}  // namespace troupe::data::templates
