// A macro, or the body of a call block that a macro calls, as a value; and the frames of variables that it can see.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/templates/syntax.hpp"
#include "data/templates/value.hpp"

namespace troupe::data::templates {

/// The values of one frame's variables.
struct variable_frame {
  std::vector<std::optional<value>> slots{};
};

/// A macro or caller. The frames outlive it: a macro sees the template's own frame only, and a caller is closed when
/// its call block ends.
struct macro_object {
  const statement* what = nullptr;
  std::vector<variable_frame*> frames{};
  std::shared_ptr<const bool> is_closed{};
};

}  // namespace troupe::data::templates
