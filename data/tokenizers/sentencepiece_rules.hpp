// The table by which a SentencePiece model rewrites text before it cuts it (`precompiled_charsmap`): a trie and the
// texts that its leaves stand for. The library follows its numbers without a look at where they lead, so a damaged one
// would end the process when a text is encoded.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace troupe::data {

/// Rules that may begin a text one inside the other; the library has room for as many.
inline constexpr size_t max_nested_rules = 32;

/// Why the library would read beyond `table`, whatever text comes; empty where it would not. No bytes are no table.
std::string_view fault_in_rules(std::span<const std::byte> table);

}  // namespace troupe::data
