// Reads a file with the `state_dict()` of a torch.optim optimizer: its groups, and the states of each parameter, by
// number or by name. Owns the file's format; leaves the meaning of numbers to numbered_states.hpp and finding the files
// to trainer.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/torch/archive.hpp"
#include "formats/trainer/numbered_states.hpp"
#include "formats/trainer/update_counts.hpp"

namespace troupe::formats {

struct optimizer_states {
  numbered_states by_number;
  std::map<std::string, std::vector<tensor_entry>> by_name;  ///< states of parameters that the file identifies by name
  update_counts counts;                                      ///< values of `step` of all parameters and groups
};

/// Reads the states, whose pieces are in file number `file` of a source; only the values of `step` are read as data.
/// Refused (bad_input), with the archive's name: any other form, a tensor that depends on a call, a `step` that is not
/// a whole number.
core::result<optimizer_states> read_optimizer_states(const torch_archive& archive, uint32_t file);

}  // namespace troupe::formats
