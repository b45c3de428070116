// The meaning of the names and keys of torch.distributed.checkpoint's entries: which belong to an optimizer, and the
// names of parameters. Owns these rules; leaves tensors to source.hpp.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "formats/torch/distributed_metadata.hpp"

namespace troupe::formats {

/// The entries of a folder's metadata, by flat name: the name in the metadata, in which torch joins an entry's keys
/// with dots.
using distributed_entries = std::map<std::string, distributed_entry, std::less<>>;

/// Returns the text after the first `state.` that begins a part of the name; empty if there is none.
std::string_view behind_state(std::string_view name);

/// True if the flat name alone shows that the entry belongs to an optimizer: `optim.` or `optimizer.`, followed by
/// `param_groups.`, by `state.` with at least two parts, or by Megatron's groups of ranks. A weight may be called
/// `optim.weight`.
bool is_optimizers_name(std::string_view name);

/// Returns a parameter's name within the model: the entry's keys, joined with dots, without the first one or, if the
/// second key is `model`, without the first two. An entry with one or two keys has its last key as name, an entry
/// without keys its flat name.
std::string own_name(const std::string& name, const distributed_entry& e);

/// Decides which entries of one folder belong to the optimizer: those whose flat name shows it (is_optimizers_name()),
/// those with a key `param_groups`, and those with a key `state` if an earlier key is `optim` or `optimizer`, if the
/// same dictionary also has `param_groups`, or if the next key names a weight. An entry's last key is never examined.
class optimizers_entries {
 public:
  explicit optimizers_entries(const distributed_entries& all);

  [[nodiscard]] bool contains(const std::string& name, const distributed_entry& e) const;

 private:
  std::set<std::string, std::less<>> grouped_;  ///< keys, joined with dots, of dictionaries that have `param_groups`
  std::set<std::string, std::less<>> weights_;  ///< own_name() of each tensor whose entry has no key `state`
};

}  // namespace troupe::formats
