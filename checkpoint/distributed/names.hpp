// The meaning of the names and keys of torch.distributed.checkpoint's entries: which belong to an optimizer, and the
// names of parameters. Owns these rules; leaves tensors to source.hpp.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "checkpoint/torch/distributed_metadata.hpp"

namespace troupe::checkpoint {

/// The entries of a folder's metadata, by flat name.
using distributed_entries = std::map<std::string, distributed_entry, std::less<>>;

/// Returns the text after the first `state.` that begins a part of the name; empty if there is none.
std::string_view behind_state(std::string_view name);

/// True if the flat name alone shows that the entry belongs to an optimizer: `optim.` or `optimizer.`, followed by
/// `param_groups.`, by `state.` with at least two parts, or by Megatron's groups of ranks. A weight may be called
/// `optim.weight`.
bool is_optimizers_name(std::string_view name);

/// Returns the parameter's own name: the keys after the dictionary that holds the model, which is the first one, or
/// `model` in it. For one key it is that key, without keys the flat name.
std::string own_name(const std::string& name, const distributed_entry& e);

/// Decides which entries of one folder belong to the optimizer. A key `state` belongs to an optimizer if keys or
/// entries around it show it; a parameter's own name, the last key, is never examined.
class optimizers_entries {
 public:
  explicit optimizers_entries(const distributed_entries& all);

  [[nodiscard]] bool contains(const std::string& name, const distributed_entry& e) const;

 private:
  std::set<std::string, std::less<>> grouped_;  ///< dictionaries that have `param_groups`, as joined keys
  std::set<std::string, std::less<>> weights_;  ///< own names of entries without a key `state`
};

}  // namespace troupe::checkpoint
