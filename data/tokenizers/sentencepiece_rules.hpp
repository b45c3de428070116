// Checks the table by which a SentencePiece model rewrites text before it cuts it (`precompiled_charsmap`): a trie and
// the texts of its leaves. The library uses the table's offsets unchecked, so a damaged table would crash the process
// when a text is encoded.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace troupe::data {

/// Largest number of rules that may match nested prefixes of a text, the size of the library's buffer for them.
inline constexpr size_t max_nested_rules = 32;

/// Returns why the library could read beyond `table` for some text; empty if it cannot. An empty `table` means that
/// there is none. `has_inner_blank`, if given, becomes true if a rule applies to a text with a blank or a line break
/// after its first byte.
std::string_view fault_in_rules(std::span<const std::byte> table, bool* has_inner_blank = nullptr);

}  // namespace troupe::data
