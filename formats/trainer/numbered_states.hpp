// States of an optimizer whose file identifies parameters by number, as torch.optim's state_dict() does. Owns the rules
// that map numbers to parameters, by the order in which the model registers them and the groups that programs form;
// leaves reading the file to trainer.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/names/layer_names.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

struct numbered_states {
  std::filesystem::path file;
  std::optional<core::error> problem;         ///< error that prevented reading the file; then the rest is empty
  std::vector<std::vector<uint64_t>> groups;  ///< numbers of the parameters in each group, in the file's order
  /// States of each parameter number except `step`: tensors of kind moment, without a name, whose pieces are in the
  /// source's files.
  std::map<uint64_t, std::vector<tensor_entry>> states;
};

/// Assigns the states of `s.numbered` to parameters by `order`, the model's parameters as it registers them, and adds
/// these states to the tensors of `s`; does nothing if there are none. A single group has the parameters in this order;
/// of two groups the first has the parameters with weight decay, the second biases and norms, by the rules of
/// transformers' Trainer and examples. Weights with states become master weights; `order` also becomes the parameter
/// order of `s` if that is unknown. Errors, which leave `s` unchanged: bad_input if the file is damaged, mismatch if no
/// rule agrees with the file's counts and shapes, or two rules that agree with them assign states differently.
core::result<void> name_states(tensor_source& s, std::span<const wanted_tensor> order);

/// Removes the numbered states and adds a remark with the reason `why`; does nothing if there are none.
void leave_out_states(tensor_source& s, const std::string& why);

}  // namespace troupe::formats
