// What a checkpoint of ours says of itself: every tensor, which bytes of which file hold which of its elements, and
// the state of the run. Owns the types and their rules; the text is manifest_text.hpp's, docs/formats.md describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/native_digest.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

inline constexpr uint32_t manifest_version = 1;
/// Every piece begins at a multiple of this in its file, and every file ends at one.
inline constexpr uint64_t piece_alignment_bytes = 4096;
inline constexpr uint64_t max_manifest_bytes = uint64_t{256} << 20;
inline constexpr size_t max_shard_files = 65'536;
inline constexpr size_t max_tensors = 1'000'000;
inline constexpr size_t max_pieces = 4'000'000;  ///< of all tensors together
inline constexpr size_t max_name_bytes = 4096;   ///< of a tensor
inline constexpr size_t max_tensor_dimensions = 64;
inline constexpr std::string_view manifest_file_name = "manifest.json";

/// What a tensor is to the run. One parameter has a tensor for each kind that was saved.
enum class tensor_kind : uint8_t {
  master,  ///< fp32 master weight: what the optimizer updates
  moment,  ///< optimizer state of the master's shape; tensor_entry::moment says which
  weight,  ///< as the forward pass uses it, where that is not the master itself
  frozen,  ///< a parameter that is not trained
  buffer   ///< belongs to the module, is no parameter
};
std::string_view name_of(tensor_kind kind);
std::optional<tensor_kind> tensor_kind_from(std::string_view name);

/// Elements [first, first + count) of a flattened tensor, and where they lie: `count` elements without gaps from byte
/// `offset_bytes` of file number `file` on.
struct piece {
  uint32_t file = 0;
  uint64_t first = 0, count = 0;
  uint64_t offset_bytes = 0;  ///< a multiple of piece_alignment_bytes
  digest128 digest;           ///< of those bytes, padding left out
  bool operator==(const piece&) const = default;
};

struct tensor_entry {  ///< one tensor, whole, however many hold it
  std::string name;
  tensor_kind kind = tensor_kind::master;
  std::string moment;  ///< "exp_avg" and the like for kind moment, else empty
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;
  std::vector<piece> pieces;  ///< ascending by first; cover every element once
  bool operator==(const tensor_entry&) const = default;
};

struct shard_file {  ///< one data file of the folder
  std::string name;  ///< a plain name: letters, digits, '.', '_' and '-', no '.' in front
  uint64_t bytes = 0;
  bool operator==(const shard_file&) const = default;
};

/// A second name of a parameter: `name` shares all tensors of `of`.
struct tied_name {
  std::string name, of;
  bool operator==(const tied_name&) const = default;
};

/// Where dynamic loss scaling stands; the meaning is kernels/loss_scaler.hpp's.
struct loss_scale_record {
  double cur_scale = 1;
  int64_t cur_iter = 0, last_overflow_iter = -1;
  uint32_t cur_hysteresis = 1;
  bool operator==(const loss_scale_record&) const = default;
};

struct run_state {                            ///< what a run needs to go on, apart from tensors
  uint64_t step = 0;                          ///< optimizer steps done, skipped ones too
  uint64_t applied_updates = 0;               ///< of these, those that changed parameters
  std::optional<uint64_t> schedule_position;  ///< updates that the schedule has counted; none: the applied ones
  std::optional<loss_scale_record> loss_scale;
  uint64_t data_position = 0;                ///< the next sample's place in the training order
  std::optional<uint64_t> samples_per_step;  ///< the global batch; none: not said
  uint64_t seed = 0;
  std::string config;                 ///< the job's file as it was read
  std::string model;                  ///< describes the model, as its builder wants it
  std::string client_state = "null";  ///< JSON of the host program, kept byte for byte
  /// Names of the parameters in the order in which the model registers them: formats that lay parameters end to end
  /// without names need it. Empty where unknown.
  std::vector<std::string> parameter_order;
  bool operator==(const run_state&) const = default;
};

struct tensor_list {                  ///< what a checkpoint holds, wherever it lies
  std::vector<tensor_entry> tensors;  ///< ascending by (name, kind, moment)
  std::vector<tied_name> tied;        ///< ascending by name
  bool operator==(const tensor_list&) const = default;
};

struct manifest : tensor_list {    ///< one checkpoint
  digest128 save_id;               ///< random, one per save; stands in every shard file too
  uint64_t committed_unix_ns = 0;  ///< orders the commits of a folder, whatever their steps; 0: not said
  run_state run;
  std::vector<shard_file> files;
  bool operator==(const manifest&) const = default;
};

/// `wte.weight (moment exp_avg)`: for messages, control characters and length tamed.
std::string shown(const tensor_entry& tensor);
std::string shown(std::string_view name, tensor_kind kind, std::string_view moment);

/// Null where there is none. `name` may be a tied one.
const tensor_entry* find_tensor(const tensor_list& in, std::string_view name, tensor_kind kind,
                                std::string_view moment = {});

/// Sorts tensors, pieces and tied names as the rules want them.
void put_in_order(tensor_list& t);

/// Holds every rule that the types cannot: limits, order, names, pieces that lie aligned inside their file, overlap
/// nobody and cover their tensor exactly. The error names the tensor.
core::result<void> check_manifest(const manifest& m);

}  // namespace troupe::checkpoint
