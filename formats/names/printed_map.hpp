// Writes the names of a checkpoint's tensors as a file for `--map`, which a person can edit. name_rules.hpp reads it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::formats {

/// Returns YAML with one row under `names` for each pair of (name in the checkpoint, new name), and one row for all
/// layers whose names differ only in numbers that both sides have in the same order. Each pattern matches exactly the
/// names of its row, and its right side yields the new name. Names with control characters are left out.
std::string printed_map(const std::vector<std::pair<std::string, std::string>>& names);

}  // namespace troupe::formats
