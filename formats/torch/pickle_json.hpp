// Converts plain values of a pickle to JSON text.
#pragma once

#include <optional>
#include <string>

#include "formats/torch/pickle_reader.hpp"

namespace troupe::formats {

/// Longest JSON text of a value, in bytes. Values that are shared many times could grow far beyond the pickle's size.
inline constexpr size_t max_plain_json_bytes = size_t{16} << 20;

/// Returns the JSON of None, bool, int, float, str, lists, tuples and sets of them, dicts with keys of text or numbers
/// (which become text), and the attributes of an argparse.Namespace or types.SimpleNamespace; order is kept. Nothing if
/// a value is anything else, not finite or not UTF-8, or if the text would be too long.
std::optional<std::string> plain_json(const pickle_tree& tree, pickle_ref value);

}  // namespace troupe::formats
