// Lists of a Megatron model's files, and one rank's module from however many files there are: joined, cut or as it is,
// where asked with its large weights as 8-bit integers. Owns the list's form and the choice of files; the rules are
// megatron/rules.hpp's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/quantised_weights.hpp"
#include "checkpoint/deepspeed/state_value.hpp"
#include "checkpoint/megatron/source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

inline constexpr uint64_t max_checkpoint_list_bytes = uint64_t{16} << 20;

/// A JSON list: `type`, `checkpoints`, `version`, `parallelization`, `mp_size`; for inference `tp_size`, `base_dir` and
/// `dtype`, and `checkpoints` as {`non_tp`, `tp`}.
struct checkpoint_list {
  enum class kind : uint8_t { megatron, bloom, ds_model };
  kind type = kind::megatron;
  std::vector<std::filesystem::path> checkpoints;  ///< in the order of their ranks
  std::vector<std::filesystem::path> non_tp, tp;   ///< of the inference form, instead of `checkpoints`
  std::optional<double> version;                   ///< of query_key_value; none: each file says it
  std::string parallelization = "pp", dtype;
  uint32_t mp_size = 0, tp_size = 0;  ///< 0: not said
  std::filesystem::path base_dir;
};

/// Relative paths are below `base_dir`, or else below `folder`. Refused, with `where`: no JSON, another type than
/// Megatron (so spelled), bloom and ds_model (in any case), missing or ill-typed keys.
core::result<checkpoint_list> parse_checkpoint_list(std::string_view json, const std::filesystem::path& folder,
                                                    const std::string& where);
core::result<checkpoint_list> read_checkpoint_list(const std::filesystem::path& json_file);

/// Which rank of which degree, and how the files are to be read.
struct module_load_options {
  uint32_t mp_world_size = 1, mp_rank = 0;
  /// Where the module is in a file: nothing, the file is the module; `auto`, the one that exists of `module` and
  /// `model`; else that key.
  std::optional<std::string> module_key = "auto";
  std::optional<double> version = std::nullopt;  ///< of query_key_value; none: `checkpoint_version` of the file, else 0
  bool quantised = false;
  quantise_options quantise = {};
};

/// A weight as integers, row-major.
struct quantised_weight {
  std::vector<int64_t> shape;
  std::vector<int8_t> values;
};

/// One rank's module.
struct loaded_module {
  std::filesystem::path path;  ///< the file, or the first of those that were joined
  tensor_source module;        ///< without what is in `quantised`
  uint32_t merge_count = 1;    ///< files that were joined
  qkv_version version = qkv_version::v0;
  std::map<std::string, quantised_weight> quantised;
  std::optional<scale_table> scales;  ///< where weights were quantised
};

/// The module of a state dict, as DeepSpeed's SDLoaderBase finds it: below the key that `module_key` says as
/// module_load_options does, or the state dict itself. Refused: neither or both of `module` and `model` where the key is
/// `auto`, a key that is not there, a state dict that is none.
core::result<state_value> get_module(const state_value& state, const std::optional<std::string>& module_key = "auto");

/// The way back: `state` with `module` in that place and all else as it is; without a key the module alone.
core::result<state_value> set_module(state_value state, state_value module,
                                     const std::optional<std::string>& module_key = "auto");

/// Rank `mp_rank`'s module of `files`, which are ranks 0, 1 ... of the model as it was saved. More files than ranks:
/// files / ranks consecutive ones are joined; fewer: its part of one file. Refused: counts that do not divide, a file
/// that says another number of files, other versions than 0, 1.0 and 2.0, and for joining a file that lacks Megatron's
/// attention or MLP. Quantised: each file's weights before they are joined (queries, keys and values then lie file by
/// file, whatever the version), or the part after it is cut.
core::result<loaded_module> load_module(std::span<const std::filesystem::path> files,
                                        const module_load_options& options);

}  // namespace troupe::checkpoint
