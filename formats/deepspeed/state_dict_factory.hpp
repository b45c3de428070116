// Lists of the files of a Megatron model, and one rank's module from any number of files: joined, cut or unchanged, on
// request with its large weights as 8-bit integers. Owns the form of the list and the choice of files; leaves the rules
// to megatron/rules.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/deepspeed/quantised_weights.hpp"
#include "formats/deepspeed/state_value.hpp"
#include "formats/megatron/cut.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

inline constexpr uint64_t max_checkpoint_list_bytes = uint64_t{16} << 20;

/// The contents of a JSON list: `type`, `checkpoints`, `version`, `parallelization`, `mp_size`; for inference also
/// `tp_size`, `base_dir` and `dtype`, and `checkpoints` as {`non_tp`, `tp`}.
struct checkpoint_list {
  enum class kind : uint8_t { megatron, bloom, ds_model };
  kind type = kind::megatron;
  std::vector<std::filesystem::path> checkpoints;  ///< files in the order of their ranks
  std::vector<std::filesystem::path> non_tp, tp;   ///< files of a list for inference, which has no plain `checkpoints`
  std::optional<double> version;                   ///< Megatron's checkpoint_version; none: each file states its own
  std::string parallelization = "pp", dtype;
  uint32_t mp_size = 0, tp_size = 0;  ///< model-parallel and tensor-parallel degree in the list; 0: not stated
  std::filesystem::path base_dir;
};

/// Parses a list; relative paths are below `base_dir`, or else below `folder`. Refused, with `where`: text that is not
/// JSON, another type than Megatron (in this spelling), bloom and ds_model (in any case), missing or ill-typed keys.
core::result<checkpoint_list> parse_checkpoint_list(std::string_view json, const std::filesystem::path& folder,
                                                    const std::string& where);
core::result<checkpoint_list> read_checkpoint_list(const std::filesystem::path& json_file);

/// Options of a load: the rank and degree to load for, and how the files are read.
struct module_load_options {
  uint32_t mp_world_size = 1, mp_rank = 0;
  /// Key of the module in a file. Nothing: the file is the module; `auto`: `module` or `model`, whichever exists; else
  /// this key.
  std::optional<std::string> module_key = "auto";
  /// Megatron's checkpoint_version, which determines the order of rows in query_key_value; none: the file's, else 0
  std::optional<double> version = std::nullopt;
  bool quantised = false;
  quantise_options quantise = {};
};

/// A weight quantised to integers, in row-major order.
struct quantised_weight {
  std::vector<int64_t> shape;
  std::vector<int8_t> values;
};

/// The weights of a module for one tensor-parallel rank, joined from or cut out of the loaded files.
struct loaded_module {
  std::filesystem::path path;  ///< file that was loaded, or the first of the joined files
  tensor_source module;        ///< the tensors that are not in `quantised`
  uint32_t merge_count = 1;    ///< number of joined files
  qkv_version version = qkv_version::v0;
  std::map<std::string, quantised_weight> quantised;
  std::optional<scale_table> scales;  ///< set only if weights were quantised
};

/// Returns the module of a state dict as DeepSpeed's SDLoaderBase finds it: below the key that `module_key` selects (as
/// module_load_options::module_key does), or the state dict itself. Refused: neither or both of `module` and `model`
/// with the key `auto`, a missing key, a value that is not a state dict.
core::result<state_value> get_module(const state_value& state, const std::optional<std::string>& module_key = "auto");

/// Returns `state` with `module` in the place where get_module() finds it, all else unchanged; without a key, only the
/// module.
core::result<state_value> set_module(state_value state, state_value module,
                                     const std::optional<std::string>& module_key = "auto");

/// Loads the module of rank `mp_rank` from `files`, which are ranks 0, 1 ... of the model as it was saved. With more
/// files than ranks, files / ranks consecutive files are joined; with fewer, one file is cut. Refused: counts that do
/// not divide, a file that states another number of files, other versions than 0, 1.0 and 2.0, and, for joining, a file
/// that lacks Megatron's attention or MLP. If `quantised` is set, quantises the weights of each file before they are
/// joined (queries, keys and values are then stored file by file, whatever the version), or the rank's part of a cut
/// file.
core::result<loaded_module> load_module(std::span<const std::filesystem::path> files,
                                        const module_load_options& options);

}  // namespace troupe::formats
