// Writes `universal_checkpoint_info` as JSON, which tells readers of a tensor-parallel folder how to join its slices.
// rules.hpp reads it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/megatron/cut.hpp"

namespace troupe::formats {

struct published_rule {
  std::string name;            ///< name of a parameter as the checkpoint writes it
  std::vector<int64_t> shape;  ///< shape of the whole parameter
  cut_rule rule;
};

/// Returns JSON with patterns that state the cut rule of each parameter in a folder of `ranks` tensor-parallel ranks. A
/// parameter without a pattern is cut into equal parts along dimension 0. Refused: vocabularies with different numbers
/// of rows, which the format cannot express; widths that do not divide.
core::result<std::string> universal_info_json(const std::vector<published_rule>& rules, uint32_t ranks);

/// Returns a regular expression that matches `name` only: `^transformer\.wte\.weight$`.
std::string exact_pattern(const std::string& name);

}  // namespace troupe::formats
