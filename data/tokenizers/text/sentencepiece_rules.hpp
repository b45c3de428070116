// Checks the rules of a SentencePiece model, which are stored as units of Darts, a double-array trie:
// https://github.com/s-yata/darts-clone, include/darts.h.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace troupe::data {

/// Largest number of rules that may match nested prefixes of a text, the size of the library's buffer for them.
inline constexpr size_t max_nested_rules = 32;

/// Returns the reason why the library could read beyond `table` for some text; empty if it cannot. An empty `table`
/// means that the model has no rules. `has_inner_blank`, if given, becomes true if a rule applies to a text with a
/// blank or a line break after its first byte.
std::string_view fault_in_rules(std::span<const std::byte> table, bool* has_inner_blank = nullptr);

}  // namespace troupe::data
