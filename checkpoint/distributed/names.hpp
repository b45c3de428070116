// What the names and keys of torch.distributed.checkpoint's entries mean: which are an optimizer's, and what a
// parameter is called. Owns these rules; tensors are source.hpp's.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "checkpoint/torch/distributed_metadata.hpp"

namespace troupe::checkpoint {

/// By flat name.
using distributed_entries = std::map<std::string, distributed_entry, std::less<>>;

/// What stands behind the first `state.` that begins a part of the name; empty where there is none.
std::string_view behind_state(std::string_view name);

/// Whether a flat name alone says that an optimizer's entry has it: behind `optim.` or `optimizer.` stand
/// `param_groups.`, `state.` with two parts at least, or Megatron's groups of ranks. A weight may be called
/// `optim.weight`.
bool is_optimizers_name(std::string_view name);

/// The parameter's own name: the keys behind the dictionary that holds the model, which is the first one, or `model`
/// in it. Of one key that key, of none the flat name.
std::string own_name(const std::string& name, const distributed_entry& e);

/// The entries of one folder. A key `state` is an optimizer's where keys or entries around it say so; a parameter's own
/// name, the last key, is never looked at.
class optimizers_entries {
 public:
  explicit optimizers_entries(const distributed_entries& all);

  [[nodiscard]] bool contains(const std::string& name, const distributed_entry& e) const;

 private:
  std::set<std::string, std::less<>> grouped_;  ///< dictionaries that have `param_groups`, as joined keys
  std::set<std::string, std::less<>> weights_;  ///< own names of what has no key `state`
};

}  // namespace troupe::checkpoint
