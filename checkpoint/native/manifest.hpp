// The manifest of a Troupe checkpoint: its tensors, its files and the state of the run. Owns the types and their rules;
// leaves the text form, which docs/formats.md describes, to manifest_text.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/left_out_steps.hpp"
#include "formats/source/data_record.hpp"
#include "formats/source/mask_record.hpp"
#include "formats/source/run_records.hpp"
#include "formats/source/shard_header.hpp"
#include "formats/tensors/tensor_list.hpp"

namespace troupe::checkpoint {

/// Newest manifest version that is read. A manifest is written as version 4 if the host program has set rates or decays
/// of optimizer groups, else as 3 if the run left samples out or its seed is unknown, else as 2 if a tensor is cut for
/// tensor parallelism, else as 1.
inline constexpr uint32_t manifest_version = 4;
inline constexpr uint64_t max_manifest_bytes = uint64_t{256} << 20;
inline constexpr size_t max_shard_files = 65'536;
inline constexpr size_t max_recent_losses = 10'000;
inline constexpr size_t max_group_changes = 10'000;
inline constexpr std::string_view manifest_file_name = "manifest.json";

struct run_state {    ///< state that a run needs to resume, apart from its tensors
  uint64_t step = 0;  ///< number of optimizer steps done, skipped steps included
  /// Number of updates that the optimizer has counted: the steps that changed parameters. A run that resumed from the
  /// checkpoint of another program continues with that optimizer's count, which may exceed `step`.
  uint64_t applied_updates = 0;
  /// Number of updates that the learning-rate schedule has counted; none: equal to applied_updates.
  std::optional<uint64_t> schedule_position;
  std::optional<formats::loss_scale_record> loss_scale;
  uint64_t data_position = 0;                ///< number of samples consumed in the training order
  std::optional<uint64_t> samples_per_step;  ///< global batch size; none: unknown
  std::optional<uint64_t> seed = 0;          ///< seed of the run's random numbers; none: unknown
  std::string config;                        ///< text of the job's configuration file as it was read
  std::string model;                         ///< description of the model, in the form of the code that builds it
  std::string client_state = "null";         ///< JSON of the host program, kept byte for byte
  /// Names of the parameters in the order in which the model registers them, for formats that store parameters end to
  /// end without names. Empty if unknown.
  std::vector<std::string> parameter_order;
  std::vector<formats::mask_record> masks;         ///< masks of pruned weights; empty if the run does not prune
  std::optional<formats::teacher_record> teacher;  ///< teacher of a distillation; none: the run has no teacher
  std::vector<formats::input_range> input_ranges;
  std::optional<formats::data_record> data;    ///< data whose samples data_position counts; none: unknown
  std::vector<core::left_out_steps> left_out;  ///< samples that the run did not train on, in order of the decisions
  std::vector<double> recent_losses;           ///< losses of recent steps for the option `on_spike`, oldest first
  std::vector<formats::group_change> group_changes{};  ///< values of optimizer groups that the host program has set
  bool operator==(const run_state&) const = default;
};

struct manifest : formats::tensor_list {  ///< one Troupe checkpoint
  storage::digest128 save_id;             ///< random id, one for each save; every shard file contains it too
  uint64_t committed_unix_ns = 0;  ///< commit time in ns since 1970, which orders a folder's checkpoints; 0: unknown
  run_state run;
  std::vector<formats::shard_file> files;
  bool operator==(const manifest&) const = default;
};

/// Checks the rules that the types cannot express: limits, order and names; pieces must be aligned, lie inside their
/// file, not overlap, and cover their tensor exactly; cuts must fit their tensor's shape. The error names the tensor.
core::result<void> check_manifest(const manifest& m);

}  // namespace troupe::checkpoint
