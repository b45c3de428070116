// A saved dictionary as values whose tensors are lists of pieces, so that the shards of several ranks can be folded
// into one without reading them. Owns the folding; which shards belong together is checkpoint_index.hpp's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "checkpoint/native/manifest.hpp"
#include "checkpoint/torch/archive.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Values of one dictionary.
inline constexpr size_t max_state_values = 4'000'000;

/// A value of a state dict: a plain one, a tensor, or a list or a dict of values.
struct state_value {
  enum class form : uint8_t { none, boolean, integer, real, text, tensor, dict, list, tuple, other };
  using key = std::variant<int64_t, std::string>;

  form is = form::none;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string text;     ///< of other: what class it is of
  tensor_entry tensor;  ///< its name is empty
  std::vector<key> keys;
  std::vector<state_value> items;  ///< of a dict as keys; of list and tuple

  [[nodiscard]] const state_value* find(const key& k) const;  ///< null where it has none
  [[nodiscard]] state_value* find(const key& k);
  void erase(const key& k);
};

/// The value with its tensors' pieces in file number `number`. An object of some class, and a dict that has keys of
/// other kinds, is `other`. Refused: tensors that cannot be read, more values than the limit.
core::result<state_value> read_state(const torch_archive& file, pickle_ref value, uint32_t number);

/// Two ranks' values as one: dicts key by key in the order of `b` (a key that only one has is kept), lists and tuples
/// element by element, tensors one behind the other along dimension 0; of everything else, and of tensors without
/// dimensions, `a`. Refused, with the place: values of different forms, lists of different lengths, tensors that differ
/// beyond dimension 0.
core::result<state_value> merge_state(state_value a, state_value b, const std::string& place = "");

/// Takes the groups' padding, as `group_paddings` of an optimizer shard says, from the end of its optimizer's tensors.
core::result<void> strip_paddings(state_value& shard);

/// In an optimizer shard: the number of data-parallel ranks of every group, and no padding.
void set_partitions(state_value& shard, uint32_t data_ranks);

}  // namespace troupe::checkpoint
