// A file with the `state_dict()` of an optimizer of torch.optim: its groups, and the states of each parameter, by
// number or by name. Owns that form; what numbers mean is numbered_states.hpp's, where such files lie trainer.hpp's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/source/numbered_states.hpp"
#include "checkpoint/source/update_counts.hpp"
#include "checkpoint/torch/archive.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct optimizer_states {
  numbered_states by_number;
  std::map<std::string, std::vector<tensor_entry>> by_name;  ///< of parameters that it names
  update_counts counts;                                      ///< by `step` of its parameters and groups
};

/// The states lie in file number `file` of a source; of them only the numbers of steps are read. Refused (bad_input)
/// with the archive: any other form, a tensor that depends on a call, a `step` that is no whole number.
core::result<optimizer_states> read_optimizer_states(const torch_archive& archive, uint32_t file);

}  // namespace troupe::checkpoint
