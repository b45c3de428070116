// Owns the cards, stacks and networks that the program contains (the files hardware/*.yaml, embedded when it is built),
// and finds those that a user names or keeps in files of their own. Leaves the form of a network to sim/network/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "hardware/stack.hpp"

namespace troupe::hardware {

/// One embedded file.
struct embedded_file {
  std::string_view name;  ///< without .yaml
  std::string_view text;
};
/// Returns the embedded files of cards and stacks, sorted by name.
std::span<const embedded_file> embedded_files();
/// Returns the embedded files of networks, sorted by name.
std::span<const embedded_file> embedded_networks();

/// A text and the name of its file for messages.
struct named_text {
  std::string text, file;
};
/// Returns the file of a network of an embedded name, or of a path that ends in .yaml. An unknown name is refused with
/// the known ones and the nearest.
core::result<named_text> find_network(const std::string& name_or_path);

/// Returns the card or stack of an embedded name, or of a path that ends in .yaml. An unknown name is refused with the
/// known ones and the nearest.
core::result<std::variant<card, stack>> find_hardware(const std::string& name_or_path);

/// Returns all embedded stacks. An embedded file that cannot be read is an error, which a test excludes.
core::result<std::vector<stack>> embedded_stacks();

/// Returns the stacks that `names` select for tables of the form `table`. A card's name selects its stack for such
/// tables; refused if there is none, or several.
core::result<std::vector<stack>> choose_stacks(const std::vector<std::string>& names, std::string_view table);

/// Returns the stack that predicts the steps of jobs. A card's name selects the first of its stacks in the order of
/// step_forms(), which begins with Megatron-LM's. Refused: a card without such a stack, or with several of the same
/// form; a card in a file of the user's, because no stack is known to be of it; a stack without constants of steps.
core::result<stack> choose_job_stack(const std::string& name);

}  // namespace troupe::hardware
