// Reads the files of cards and stacks (hardware/*.yaml). Owns their form, and refuses a constant that is missing,
// unknown, negative, not finite or in another unit, by name with file and line.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "core/error.hpp"
#include "hardware/stack.hpp"

namespace troupe::hardware {

/// Finds what a stack's file refers to by name.
struct hardware_lookup {
  std::function<core::result<card>(const std::string& name)> find_card;
  std::function<core::result<stack>(const std::string& name)> find_stack;
};

/// Returns the card or stack of a YAML text. `name` is the file's name without folder and ending, `file` its path for
/// messages.
core::result<std::variant<card, stack>> read_hardware(std::string_view text, const std::string& name,
                                                      const std::string& file, const hardware_lookup& lookup);

/// Returns the name in `names` that is nearest to `wanted`.
std::string nearest_name(std::string_view wanted, const std::vector<std::string>& names);

}  // namespace troupe::hardware
