// The names of a checkpoint's tensors as a file for `--map`: rows that a person reads, changes and gives back. The way
// back is name_rules.hpp's.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::checkpoint {

/// YAML with a row under `names` for each pair of (name in the checkpoint, name that it gets), and one for all layers
/// where only numbers differ, which the right side has in the same order. Each pattern holds for the names that it
/// stands for and gives them exactly theirs. Left out are names with control characters.
std::string printed_map(const std::vector<std::pair<std::string, std::string>>& names);

}  // namespace troupe::checkpoint
