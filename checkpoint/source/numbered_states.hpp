// States of an optimizer whose file knows its parameters by number, as torch.optim's state_dict() does: which number is
// which parameter, from the order in which the model registers them and the groups that programs deal them to. Owns
// those rules; the file is trainer.hpp's to read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/source/layer_names.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct numbered_states {
  std::filesystem::path file;
  std::optional<core::error> problem;         ///< why nothing else of it is known
  std::vector<std::vector<uint64_t>> groups;  ///< of parameters' numbers, in the file's order
  /// By number: one for each state but `step`, of kind moment and without a name. Their pieces lie in the source's
  /// files.
  std::map<uint64_t, std::vector<tensor_entry>> states;
};

/// Gives the states of `s.numbered` the names of their parameters and makes them tensors of `s`, which then has the
/// order, too; nothing to do where there are none. `order`: the model's parameters as it registers them. A group of all
/// has them in this order; of two the first has those whose weights decay, the second biases and norms, by the rules of
/// transformers' Trainer and of its examples. Errors, which leave `s` as it is: bad_input where the file is damaged,
/// mismatch where no rule has the file's counts and shapes, or two have.
core::result<void> name_states(tensor_source& s, std::span<const wanted_tensor> order);

/// Takes the states out, which is said with `why`; nothing to do where there are none.
void leave_out_states(tensor_source& s, const std::string& why);

}  // namespace troupe::checkpoint
