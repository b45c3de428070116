// Writes `universal_checkpoint_info` as JSON, from which readers of a tensor-parallel folder learn how its slices go
// together. rules.hpp reads it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/megatron/cut.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct published_rule {
  std::string name;            ///< of a parameter, as it is written
  std::vector<int64_t> shape;  ///< of the whole
  cut_rule rule;
};

/// A pattern for each name, which tells readers of a folder of `ranks` tensor-parallel ranks its rule. Refused:
/// vocabularies of different numbers of rows, which the form has no place for; widths that do not divide.
core::result<std::string> universal_info_json(const std::vector<published_rule>& rules, uint32_t ranks);

/// `^transformer\.wte\.weight$`
std::string exact_pattern(const std::string& name);

}  // namespace troupe::checkpoint
