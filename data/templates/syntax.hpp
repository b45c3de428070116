// The syntax tree of a template: expressions and statements with their places in the source, and the frames of
// variables that names.cpp adds. The tree is read only after it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/templates/value.hpp"

namespace troupe::data::templates {

/// A place in the source, both counted from 1; columns are bytes.
struct position {
  uint32_t line = 1, column = 1;
};

/// A variable: number `slot` of the frame that is `depth` frames inside the template's own.
struct variable_place {
  uint32_t depth = 0, slot = 0;
};

/// An expression.
struct expression {
  enum class kind : uint8_t {
    constant,    ///< `constant`
    block_text,  ///< the text of the block whose filter contains this expression
    name,        ///< the variable `word` at `place`
    list,        ///< parts: items
    tuple,       ///< parts: items
    dictionary,  ///< parts: key, value, key, value ...
    binary,      ///< parts[0] `word` parts[1], for + - * / // % **
    concat,      ///< parts, joined by ~
    sign,        ///< `word` parts[0], for + and -
    all_of,      ///< parts[0] and parts[1]
    any_of,      ///< parts[0] or parts[1]
    negation,    ///< not parts[0]
    compare,     ///< parts[0] words[0] parts[1] words[1] parts[2] ...
    condition,   ///< parts[1] if parts[0] else parts[2], which may be absent
    attribute,   ///< parts[0].word, or an attribute of a namespace that is assigned
    item,        ///< parts[0][parts[1]]
    slice,       ///< parts[0][parts[1]:parts[2]:parts[3]]; an absent bound is the constant None
    call,        ///< parts[0](arguments)
    filter,      ///< parts[0] | word(arguments)
    test,        ///< parts[0] is word(arguments)
  };
  kind is = kind::constant;
  position at{};
  std::string word{};
  value constant{};
  /// Parts of the expression. The arguments of a call, filter or test follow parts[0].
  std::vector<expression> parts{};
  /// For each argument "" or its keyword, "*" for arguments in a list, "**" for those in a mapping; operators of a
  /// comparison.
  std::vector<std::string> words{};
  variable_place place{};
  uint32_t depth = 1;  ///< 1 plus the depth of the deepest part
};

/// A variable of a frame, and its value when the frame is entered.
struct variable_load {
  enum class kind : uint8_t {
    parameter,  ///< nothing: it is assigned by the statement that enters the frame
    resolve,    ///< the variable of the caller of render(), or a global function
    alias,      ///< the value of the variable of the same name in an outer frame
    undefined,  ///< no value
  };
  kind is = kind::parameter;
  std::string name{};
  uint32_t slot = 0;
  variable_place outer{};
};

/// The variables of a part of a template.
struct frame_plan {
  uint32_t depth = 0;
  std::vector<variable_load> loads{};  ///< one per slot
};

/// A statement.
struct statement {
  enum class kind : uint8_t {
    text,          ///< `word`
    print,         ///< values: printed one after the other
    branch,        ///< if values[0] then `body`, else the first of `others` that holds, else `otherwise`
    loop,          ///< for targets[0] in values[0] [if values[1]]: `body`, else `otherwise`
    set,           ///< targets[0] = values[0]
    set_block,     ///< targets[0] = the text of `body`, or values[0], a filter of it
    macro,         ///< the macro `word` with parameters `targets`, of which the last have the defaults `values`
    call_block,    ///< the call values[0] with a caller with parameters `targets`, whose last defaults are values[1...]
    filter_block,  ///< values[0], a filter, of the text of `body`
    with,          ///< targets[i] = values[i] for `body`
    generation,    ///< `body`, whose text an assistant has generated
    leave,         ///< break
    next,          ///< continue
  };
  kind is = kind::text;
  position at{};
  std::string word{};
  std::vector<expression> targets{}, values{};
  std::vector<statement> body{}, others{}, otherwise{};
  frame_plan frame{}, test_frame{}, else_frame{};
  bool uses_loop = false;  ///< the body of a loop reads `loop`
  variable_place loop{}, macro_place{};
  /// Slots of a macro's or caller's frame, if its body reads these names.
  std::optional<uint32_t> caller{}, keywords{}, positional{};
};

/// A whole template.
struct syntax_tree {
  std::vector<statement> body{};
  frame_plan frame{};
  bool marks_generation = false;
};

}  // namespace troupe::data::templates
