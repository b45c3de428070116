// A saved dictionary as values whose tensors are lists of pieces, so that the shards of several ranks can be merged
// into one without reading their elements. Owns the merging; checkpoint_index.hpp decides which shards belong together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "formats/tensors/tensor_list.hpp"
#include "formats/torch/pickle_ref.hpp"

namespace troupe::formats {

class torch_archive;

/// Maximum number of values in one dictionary.
inline constexpr size_t max_state_values = 4'000'000;

/// A value of a state dict: a plain one, a tensor, or a list or a dict of values.
struct state_value {
  enum class form : uint8_t { none, boolean, integer, real, text, tensor, dict, list, tuple, other };
  using key = std::variant<int64_t, std::string>;

  form is = form::none;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string text;     ///< text of form::text; name of the class of form::other
  tensor_entry tensor;  ///< tensor of form::tensor, whose name is empty
  std::vector<key> keys;
  std::vector<state_value> items;  ///< values of a dict in the order of `keys`; items of a list or tuple

  [[nodiscard]] const state_value* find(const key& k) const;  ///< returns null if this is no dict or has no such key
  [[nodiscard]] state_value* find(const key& k);
  void erase(const key& k);
};

/// Reads a value; the pieces of its tensors are in file number `number`. An object of a class, and a dict with a key
/// that is neither an integer nor a text, become form::other. Refused: tensors that cannot be read, more values than
/// max_state_values.
core::result<state_value> read_state(const torch_archive& file, pickle_ref value, uint32_t number);

/// Merges the values of two ranks: dicts key by key in the order of `b` (a key that only one has is kept), lists and
/// tuples element by element, tensors concatenated along dimension 0. All other values, and tensors without dimensions,
/// are copied from `a`. Returns an error with the place of values of different forms, lists of different lengths, or
/// tensors that differ in other dimensions than 0.
core::result<state_value> merge_state(state_value a, state_value b, const std::string& place = "");

/// Removes the padding of each group, as given in `group_paddings` of an optimizer shard, from the end of the
/// optimizer's tensors.
core::result<void> strip_paddings(state_value& shard);

/// Sets the number of data-parallel ranks of every group of an optimizer shard, and its padding to 0.
void set_partitions(state_value& shard, uint32_t data_ranks);

}  // namespace troupe::formats
