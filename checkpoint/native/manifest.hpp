// The manifest of a Troupe checkpoint: its tensors, its files and the state of the run. Owns the types and their rules;
// leaves the text form, which docs/formats.md describes, to manifest_text.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/files/tensor_list.hpp"
#include "checkpoint/native/data_record.hpp"
#include "checkpoint/native/mask_record.hpp"
#include "core/error.hpp"
#include "core/left_out_steps.hpp"

namespace troupe::checkpoint {

/// Newest manifest version that is read. A manifest is written as version 3 if the run left samples out or its seed is
/// unknown, else as 2 if a tensor is cut for tensor parallelism, else as 1.
inline constexpr uint32_t manifest_version = 3;
inline constexpr uint64_t max_manifest_bytes = uint64_t{256} << 20;
inline constexpr size_t max_shard_files = 65'536;
inline constexpr size_t max_recent_losses = 10'000;
inline constexpr std::string_view manifest_file_name = "manifest.json";

struct shard_file {  ///< one data file of a checkpoint's folder
  std::string name;  ///< plain file name: letters, digits, '.', '_' and '-', without '.' at the beginning
  uint64_t bytes = 0;
  bool operator==(const shard_file&) const = default;
};

/// The state of dynamic loss scaling; kernels/optimizer/loss_scaler.hpp defines the fields.
struct loss_scale_record {
  double cur_scale = 1;
  int64_t cur_iter = 0, last_overflow_iter = -1;
  uint32_t cur_hysteresis = 1;
  bool operator==(const loss_scale_record&) const = default;
};

/// The teacher model that a run distils from; checkpoints do not contain it.
struct teacher_record {
  std::string folder;
  digest128 digest;  ///< digest of the teacher's config.json and weights
  bool operator==(const teacher_record&) const = default;
};

/// Smallest and largest input of a layer so far, for layers that quantise their inputs with one range for all tokens.
struct input_range {
  std::string layer;
  float least = 0, largest = 0;
  bool operator==(const input_range&) const = default;
};

struct run_state {    ///< state that a run needs to resume, apart from its tensors
  uint64_t step = 0;  ///< number of optimizer steps done, skipped steps included
  /// Number of updates that the optimizer has counted: the steps that changed parameters. A run that resumed from the
  /// checkpoint of another program continues with that optimizer's count, which may exceed `step`.
  uint64_t applied_updates = 0;
  /// Number of updates that the learning-rate schedule has counted; none: equal to applied_updates.
  std::optional<uint64_t> schedule_position;
  std::optional<loss_scale_record> loss_scale;
  uint64_t data_position = 0;                ///< number of samples consumed in the training order
  std::optional<uint64_t> samples_per_step;  ///< global batch size; none: unknown
  std::optional<uint64_t> seed = 0;          ///< seed of the run's random numbers; none: unknown
  std::string config;                        ///< text of the job's configuration file as it was read
  std::string model;                         ///< description of the model, in the form of the code that builds it
  std::string client_state = "null";         ///< JSON of the host program, kept byte for byte
  /// Names of the parameters in the order in which the model registers them, for formats that store parameters end to
  /// end without names. Empty if unknown.
  std::vector<std::string> parameter_order;
  std::vector<mask_record> masks;         ///< masks of pruned weights; empty if the run does not prune
  std::optional<teacher_record> teacher;  ///< teacher of a distillation; none: the run has no teacher
  std::vector<input_range> input_ranges;
  std::optional<data_record> data;             ///< data whose samples data_position counts; none: unknown
  std::vector<core::left_out_steps> left_out;  ///< samples that the run did not train on, in order of the decisions
  std::vector<double> recent_losses;           ///< losses of recent steps for the option `on_spike`, oldest first
  bool operator==(const run_state&) const = default;
};

struct manifest : tensor_list {    ///< one Troupe checkpoint
  digest128 save_id;               ///< random id, one for each save; every shard file contains it too
  uint64_t committed_unix_ns = 0;  ///< commit time in ns since 1970, which orders a folder's checkpoints; 0: unknown
  run_state run;
  std::vector<shard_file> files;
  bool operator==(const manifest&) const = default;
};

/// Checks the rules that the types cannot express: limits, order and names; pieces must be aligned, lie inside their
/// file, not overlap, and cover their tensor exactly; cuts must fit their tensor's shape. The error names the tensor.
core::result<void> check_manifest(const manifest& m);

}  // namespace troupe::checkpoint
