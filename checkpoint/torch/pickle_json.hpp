// Plain values of a pickle as JSON text.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/torch/pickle_reader.hpp"

namespace troupe::checkpoint {

/// Bytes of such a text; values shared again and again would grow beyond any file.
inline constexpr size_t max_plain_json_bytes = size_t{16} << 20;

/// None, bool, int, float, str, lists, tuples and sets of them, dicts with keys of text or numbers (which become text),
/// and the attributes of an argparse.Namespace; order is kept. Nothing where a value is anything else, is not finite,
/// is no UTF-8, or the text would be too long.
std::optional<std::string> plain_json(const pickle_tree& tree, pickle_ref value);

}  // namespace troupe::checkpoint
