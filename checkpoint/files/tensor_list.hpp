// The contents of a checkpoint of any format: every tensor, and which bytes of which file hold which of its elements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/files/digest.hpp"
#include "core/dtype.hpp"
#include "core/tensor_view.hpp"
#include "core/text.hpp"
#include "core/tp_plan.hpp"

namespace troupe::checkpoint {

using core::shown;

/// Every piece begins at a multiple of this in its file, and every file ends at one.
inline constexpr uint64_t piece_alignment_bytes = 4096;
inline constexpr size_t max_tensors = 1'000'000;
inline constexpr size_t max_pieces = 4'000'000;  ///< of all tensors together
inline constexpr size_t max_name_bytes = 4096;   ///< of a tensor
inline constexpr size_t max_tensor_dimensions = 64;

/// What a tensor is to the run. One parameter has a tensor for each kind that was saved.
enum class tensor_kind : uint8_t {
  master,  ///< fp32 master weight: what the optimizer updates
  moment,  ///< optimizer state of the master's shape; tensor_entry::moment says which
  weight,  ///< as the forward pass uses it, where that is not the master itself
  frozen,  ///< a parameter that is not trained
  buffer   ///< belongs to the module, is no parameter
};
/// `master`, `moment` and so on, and back; nothing for any other name.
std::string_view name_of(tensor_kind kind);
std::optional<tensor_kind> tensor_kind_from(std::string_view name);

/// Elements [first, first + count) of a flattened tensor, or of a share of one that is cut, and where they lie: `count`
/// elements without gaps from byte `offset_bytes` of file number `file` on.
struct piece {
  uint32_t file = 0;
  uint64_t first = 0, count = 0;
  uint64_t offset_bytes = 0;  ///< a multiple of piece_alignment_bytes
  digest128 digest;           ///< of those bytes, padding left out
  uint32_t share = 0;         ///< of a cut tensor: the coordinate whose elements `first` counts
  bool operator==(const piece&) const = default;
};

struct tensor_entry {  ///< one tensor, whole, however many hold it
  std::string name;
  tensor_kind kind = tensor_kind::master;
  std::string moment;  ///< "exp_avg" and the like for kind moment, else empty
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;
  std::vector<piece> pieces;  ///< ascending by (share, first); cover every element once
  /// Of a tensor whose pieces are parts of tensor coordinates' shares: boxes of it, one for each part, whose elements
  /// are numbered as core::tp_slices does with tp_room::own. Else it cuts nothing.
  core::parameter_cut cut{};
  bool operator==(const tensor_entry&) const = default;
};

/// Of the whole tensor.
inline uint64_t bytes_of_tensor(const tensor_entry& t) { return core::numel_of(t.shape) * core::size_of(t.type); }

/// A second name of a parameter: `name` shares all tensors of `of`.
struct tied_name {
  std::string name, of;
  bool operator==(const tied_name&) const = default;
};

struct tensor_list {                  ///< what a checkpoint holds, wherever it lies
  std::vector<tensor_entry> tensors;  ///< ascending by (name, kind, moment)
  std::vector<tied_name> tied;        ///< ascending by name
  bool operator==(const tensor_list&) const = default;
};

/// `wte.weight (moment exp_avg)`: for messages, control characters and length tamed.
std::string shown(const tensor_entry& tensor);
std::string shown(std::string_view name, tensor_kind kind, std::string_view moment);

/// Null where there is none. `name` may be a tied one.
const tensor_entry* find_tensor(const tensor_list& in, std::string_view name, tensor_kind kind,
                                std::string_view moment = {});

/// `a` stands before `b` in a list; neither does where they are the same tensor.
bool in_order(const tensor_entry& a, const tensor_entry& b);

/// Sorts tensors, pieces and tied names as the rules want them.
void put_in_order(tensor_list& t);

}  // namespace troupe::checkpoint
