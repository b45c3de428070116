// The contents of a checkpoint of any format: every tensor, and which bytes of which file hold which of its elements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/tensor_view.hpp"
#include "core/text.hpp"
#include "core/tp_plan.hpp"
#include "storage/files/digest.hpp"

namespace troupe::formats {

using core::shown;

/// In Troupe's own format every piece begins at a multiple of this number in its file, and the length of every file is
/// a multiple of it.
inline constexpr uint64_t piece_alignment_bytes = 4096;
inline constexpr size_t max_tensors = 1'000'000;
inline constexpr size_t max_pieces = 4'000'000;  ///< maximum number of pieces of all tensors together
inline constexpr size_t max_name_bytes = 4096;   ///< maximum length of a tensor's name
inline constexpr size_t max_tensor_dimensions = 64;

/// The role of a tensor in the run. One parameter has a tensor for each kind that was saved.
enum class tensor_kind : uint8_t {
  master,  ///< fp32 master weight, which the optimizer updates
  moment,  ///< optimizer state of the master's shape, named by tensor_entry::moment
  weight,  ///< weight that the forward pass uses, if it is not the master itself
  frozen,  ///< parameter that is not trained
  buffer   ///< tensor of the module that is not a parameter
};
/// name_of() returns the name of a kind (`master`, `moment` ...); tensor_kind_from() returns the kind with such a name,
/// and nothing for any other name.
std::string_view name_of(tensor_kind kind);
std::optional<tensor_kind> tensor_kind_from(std::string_view name);

/// Elements [first, first + count) of a flattened tensor, or of one share of a cut tensor, and their place: `count`
/// elements without gaps from byte `offset_bytes` of file number `file`.
struct piece {
  uint32_t file = 0;
  uint64_t first = 0, count = 0;
  uint64_t offset_bytes = 0;  ///< offset in the file; in Troupe's own format a multiple of piece_alignment_bytes
  storage::digest128 digest;  ///< digest of the piece's bytes without padding
  uint32_t share = 0;         ///< tensor-parallel coordinate whose elements `first` counts; 0 if the tensor is not cut
  bool operator==(const piece&) const = default;
};

/// Description of one whole tensor of a checkpoint: name, dtype, shape, and the pieces in which it is stored.
struct tensor_entry {
  std::string name;
  tensor_kind kind = tensor_kind::master;
  std::string moment;  ///< name of the optimizer state ("exp_avg" ...) for kind moment; else empty
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;
  std::vector<piece> pieces;  ///< ascending by (share, first); cover every element once
  /// How the tensor is cut into shares, one for each tensor-parallel coordinate. Each piece then belongs to one share,
  /// and piece::first counts the elements of this share, in the order of core::tp_slices, without padding
  /// (tp_room::own). Empty if the tensor is not cut.
  core::parameter_cut cut{};
  bool operator==(const tensor_entry&) const = default;
};

/// Returns the size in bytes of the whole tensor.
inline uint64_t bytes_of_tensor(const tensor_entry& t) { return core::numel_of(t.shape) * core::size_of(t.type); }

/// A second name of a parameter: `name` shares all tensors of `of`.
struct tied_name {
  std::string name, of;
  bool operator==(const tied_name&) const = default;
};

/// The description of a checkpoint's tensors: names, kinds, shapes, and where their bytes are stored.
struct tensor_list {
  std::vector<tensor_entry> tensors;  ///< ascending by (name, kind, moment)
  std::vector<tied_name> tied;        ///< ascending by name
  bool operator==(const tensor_list&) const = default;
};

/// Returns the tensor as text for messages, such as `'wte.weight' (moment exp_avg)`, with control characters replaced
/// and long names cut.
std::string shown(const tensor_entry& tensor);
std::string shown(std::string_view name, tensor_kind kind, std::string_view moment);

/// Returns the tensor with this name, kind and moment, or null. `name` may be a tied name.
const tensor_entry* find_tensor(const tensor_list& in, std::string_view name, tensor_kind kind,
                                std::string_view moment = {});

/// True if `a` precedes `b` in a tensor_list; false if both have the same name, kind and moment.
bool in_order(const tensor_entry& a, const tensor_entry& b);

/// Sorts tensors, pieces and tied names into the ascending order that tensor_list requires.
void put_in_order(tensor_list& t);

}  // namespace troupe::formats
